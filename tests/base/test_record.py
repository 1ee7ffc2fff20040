"""Records are dataclasses: what is shared among them does what the standard library's does."""

import dataclasses
import pickle
from dataclasses import field, replace

import pytest

from amped.base.record import dataclass, record


@dataclass(frozen=True)
class Ours:
    """Three fields, of which one is not compared and one not shown."""

    name: str
    size: float = 1.0
    note: str = field(default="", compare=False)
    inner: tuple = field(default=(), repr=False)


@dataclasses.dataclass(frozen=True)
class Theirs:
    """The same, as the standard library has it."""

    name: str
    size: float = 1.0
    note: str = field(default="", compare=False)
    inner: tuple = field(default=(), repr=False)


@record
class Slotted:
    """A record with slots and one field."""

    only: int


@dataclass
class Open:
    """A record that may change, and has its own text."""

    value: int = 0

    def __repr__(self) -> str:
        return "mine"


def test_comparison_hash_and_text_are_those_of_the_standard_library():
    for kind in (Ours, Theirs):
        one, same, other = kind("a", note="x"), kind("a", note="y"), kind("a", inner=(1,))
        assert one == same
        assert hash(one) == hash(same)
        assert one != other
        assert len({one, same, other}) == 2
    assert repr(Ours("a")) == repr(Theirs("a")).replace("Theirs", "Ours")
    assert Ours("a") != Theirs("a")


def test_a_record_is_frozen_replaced_pickled_and_taken_apart():
    one = Ours("a")
    with pytest.raises(dataclasses.FrozenInstanceError):
        one.name = "b"
    assert replace(one, size=2.0) == Ours("a", 2.0)
    assert pickle.loads(pickle.dumps(one)) == one
    assert dataclasses.asdict(one) == {"name": "a", "size": 1.0, "note": "", "inner": ()}


def test_slots_and_own_methods_are_kept():
    with pytest.raises(dataclasses.FrozenInstanceError):
        Slotted(1).only = 2
    assert not hasattr(Slotted(1), "__dict__")
    assert (Slotted(1), hash(Slotted(1)), repr(Slotted(1))) == (Slotted(1), hash(Slotted(1)), "Slotted(only=1)")
    assert not hasattr(Slotted(1), "__dict__")
    assert (repr(Open()), Open(1) == Open(1)) == ("mine", True)
    with pytest.raises(TypeError, match="unhashable"):
        hash(Open())


@dataclass(frozen=True)
class Base:
    """A record that others extend, with a check of its own."""

    value: int
    made: list = field(default_factory=list)
    double: int = field(init=False, default=0)

    def __post_init__(self) -> None:
        object.__setattr__(self, "double", 2 * self.value)


@dataclass(frozen=True)
class Longer(Base):
    """A record with a further field."""

    more: int = 1


class Plain(Base):
    """A class on top of a record, which may have attributes of its own."""


def test_factories_checks_and_what_builds_on_a_record_work():
    assert (Base(2).double, Base(2).made, Base(2).made is Base(2).made) == (4, [], False)
    assert (Longer(1, more=3).more, Longer(1).double, Longer(1) == Base(1)) == (3, 2, False)
    own = Plain(3)
    own.note = "mine"
    assert (own.note, own.double) == ("mine", 6)
    with pytest.raises(dataclasses.FrozenInstanceError):
        own.value = 4
    with pytest.raises(dataclasses.FrozenInstanceError):
        del Base(1).value
    with pytest.raises(TypeError, match="unexpected keyword argument 'values'"):
        Base(values=1)


def test_slotted_records_are_pickled_and_frozen():
    assert pickle.loads(pickle.dumps(Slotted(3))) == Slotted(3)
    with pytest.raises(dataclasses.FrozenInstanceError):
        Slotted(1).only = 2
