"""What a campaign is made of: kinds of cases, what one case led to, and failures."""

import copy
import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from random import Random
from typing import Any

# Plain data, as JSON has it: a case is printed in one line, read again, and made smaller without knowing its kind.
Case = dict[str, Any]


@dataclass(frozen=True)
class Seen:
    """What running a case led to.

    Attributes:
        wrong: what must not be, in words; up to a colon, the words tell one kind of failure from others.
        answered: how many of its answers were results; the others were refusals.
        count: how many answers it had.
    """

    wrong: str = ""
    answered: int = 1
    count: int = 1


# A longer text is tried at half its length.
LONG = 40


def with_less(case: Case) -> Iterator[Case]:
    """The case without one of its entries, the largest entries first; then with half of a long text."""
    places = sorted(_places(case), key=len)
    for place in places:
        smaller = copy.deepcopy(case)
        del around(smaller, place)[place[-1]]
        yield smaller
    for place in places:
        text = around(case, place)[place[-1]]
        if isinstance(text, str) and len(text) > LONG:
            smaller = copy.deepcopy(case)
            around(smaller, place)[place[-1]] = text[: len(text) // 2]
            yield smaller


def around(value: Any, place: tuple[Any, ...]) -> Any:
    """What holds the entry at a place."""
    for step in place[:-1]:
        value = value[step]
    return value


def _places(value: Any, before: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    entries = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, inner in entries:
        yield (*before, key)
        yield from _places(inner, (*before, key))


def places_of(value: Any) -> list[tuple[Any, ...]]:
    """The way to each entry of a nested value."""
    return [*_places(value)]


@dataclass(frozen=True)
class Kind:
    """A kind of cases.

    Attributes:
        name: its name on the command line and in the table.
        draw: a case from a source of chance; the same chance draws the same case.
        run: asks amped, and says what is wrong with the answers. An exception that leaves it is a failure.
        hourly: how many answers a campaign of an hour should have.
        slice: how many cases CI runs.
        seconds: the time of a processor that a case may take.
    """

    name: str
    draw: Callable[[Random], Case]
    run: Callable[[Case], Seen]
    hourly: int
    slice: int
    seconds: float = 10.0


@dataclass(frozen=True)
class Failure:
    """A case that failed; those with one `sign` are taken for one."""

    kind: str
    sign: str
    what: str
    case: Case

    def __str__(self) -> str:
        return f"FAILED {self.kind}: {self.what}\n  python -m tests.campaigns --again {self.kind} {quoted(self.case)}"


def quoted(case: Case) -> str:
    """The case as a word of a shell."""
    text = json.dumps(case).replace("'", "\\u0027")
    return f"'{text}'"
