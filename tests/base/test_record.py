"""Records are dataclasses: what is shared among them does what the standard library's does."""

import dataclasses
import pickle
from dataclasses import field, replace

import pytest

from amped.base.record import dataclass


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


@dataclass(frozen=True, slots=True)
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
    assert (Slotted(1), hash(Slotted(1)), repr(Slotted(1))) == (Slotted(1), hash(Slotted(1)), "Slotted(only=1)")
    assert not hasattr(Slotted(1), "__dict__")
    assert (repr(Open()), Open(1) == Open(1)) == ("mine", True)
    with pytest.raises(TypeError, match="unhashable"):
        hash(Open())
