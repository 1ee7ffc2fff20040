"""What differs between the answers of two trees, with the names of the older one read as those of the newer."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

WORD = re.compile(r"[A-Za-z_]\w*")
# Errors of fits may differ by this share: a fit stops when it is near enough.
FIT_TOLERANCE = 0.01
# Levels of an answer that tell nothing in the name of a value.
LEVELS = ("quantities", "results", "choices", "all")
LONGEST = 160
# Names that were changed: `names` of parameters and quantities, and `words` that outputs have.
FORMER_NAMES = Path(__file__).with_name("former_names.json")


class Absent:
    """Stands for a value that one side lacks."""


ABSENT = Absent()


@dataclass
class Names:
    """The table of former names, and which of them were met."""

    table: Mapping[str, str]
    met: dict[str, str] = field(default_factory=dict)

    def new(self, text: str) -> str:
        """A text of the older tree in the names of the newer: the whole of it, or its words."""
        return self._word(text) if text in self.table else WORD.sub(lambda found: self._word(found[0]), text)

    def _word(self, word: str) -> str:
        if word in self.table:
            self.met[word] = self.table[word]
        return self.table.get(word, word)

    def same(self, old: str, new: str) -> bool:
        """Whether two texts say the same. The newer may quote an older name, as it was written in the question."""
        mapped = self.new(old)
        return mapped in (new, WORD.sub(lambda found: self.table.get(found[0], found[0]), new))


@dataclass(frozen=True)
class Difference:
    """One value that differs: where in the answer, and the value on each side."""

    where: tuple[str | int, ...]
    old: Any
    new: Any

    @property
    def name(self) -> str:
        """The quantity, or what else it is, without the places in lists."""
        words = [part for part in self.where if isinstance(part, str) and part not in LEVELS]
        return " ".join(words) or "the answer"

    @property
    def path(self) -> str:
        """The same, and after it the places in lists."""
        return self.name + "".join(f"[{part}]" for part in self.where if isinstance(part, int))

    def __str__(self) -> str:
        if isinstance(self.new, Absent):
            return f"lost, was {told(self.old):.{LONGEST}}"
        if isinstance(self.old, Absent):
            return f"new, {told(self.new):.{LONGEST}}"
        old, new = apart(told(self.old), told(self.new))
        share = relative(self.old, self.new)
        return f"{old} → {new}" + ("" if share is None else f" (relative {share:.2g})")


def former_names() -> dict[str, dict[str, str]]:
    """The former names by their kind, each with its name of today."""
    tables: dict[str, dict[str, str]] = json.loads(FORMER_NAMES.read_text("utf-8"))
    return tables


def of_today(question: Any, parameters: Mapping[str, str]) -> Any:
    """A question of the older tree as the newer one understands it: keys, and words of texts, by their names of today."""
    if isinstance(question, dict):
        return {parameters.get(name, name): of_today(value, parameters) for name, value in question.items()}
    if isinstance(question, list | tuple):
        return [of_today(each, parameters) for each in question]
    if isinstance(question, str):
        return WORD.sub(lambda found: parameters.get(found[0], found[0]), question)
    return question


def is_number(value: object) -> bool:
    """Whether it is a number and no truth value."""
    return isinstance(value, int | float) and not isinstance(value, bool)


def same_number(old: float, new: float, tolerance: float) -> bool:
    """Whether two numbers are the same bit for bit, or within the tolerance; no number is the same as no number."""
    if float(old).hex() == float(new).hex():
        return True
    if not (math.isfinite(old) and math.isfinite(new)):
        return False
    return tolerance > 0 and abs(new - old) <= tolerance * max(abs(old), abs(new))


def relative(old: object, new: object) -> float | None:
    """The difference as a share of the older number; None where one of them is no number."""
    if not (isinstance(old, int | float) and isinstance(new, int | float)) or not (is_number(old) and is_number(new)):
        return None
    return abs(new - old) / abs(old) if old else math.inf


def differences(
    old: Any, new: Any, names: Names, tolerance: float, where: tuple[str | int, ...] = ()
) -> Iterator[Difference]:
    """Every value of two answers that is not the same."""
    if isinstance(old, dict) and isinstance(new, dict):
        if failure(old).partition(":")[0] != failure(new).partition(":")[0]:
            yield Difference(where, failure(old) or "an answer", failure(new) or "an answer")
        else:
            yield from _of_mappings(old, new, names, tolerance, where)
    elif isinstance(old, list) and isinstance(new, list):
        for place in range(max(len(old), len(new))):
            one, other = (side[place] if place < len(side) else ABSENT for side in (old, new))
            yield from differences(one, other, names, tolerance, (*where, place))
    elif not _same(old, new, names, tolerance):
        yield Difference(where, old, new)


def failure(answer: Any) -> str:
    """How a question failed; nothing where it has an answer."""
    return next((f"{word}: {answer[word]}" for word in ("refusal", "crash") if word in answer), "")


def _of_mappings(
    old: Mapping[str, Any], new: Mapping[str, Any], names: Names, tolerance: float, where: tuple[str | int, ...]
) -> Iterator[Difference]:
    """Values by name: an older name is looked for under its new one, and a text of several words may quote either.

    A key that the newer tree has as it was, and not under its new name, is no former name but the same word elsewhere.
    """
    left = dict.fromkeys(new)
    for name, value in old.items():
        mapped = name if name in new and names.table.get(name) not in new else names.new(name)
        if mapped not in new and not WORD.fullmatch(name):
            mapped = next((each for each in left if names.same(name, each)), mapped)
        left.pop(mapped, None)
        yield from differences(value, new.get(mapped, ABSENT), names, tolerance, (*where, mapped))
    yield from (Difference((*where, name), ABSENT, new[name]) for name in left)


def _same(old: Any, new: Any, names: Names, tolerance: float) -> bool:
    if isinstance(old, str) and isinstance(new, str):
        return old == new or names.same(old, new)
    if is_number(old) and is_number(new):
        return same_number(old, new, tolerance)
    return type(old) is type(new) and old == new


def losses(old: Mapping[str, Any], new: Mapping[str, Any], names: Names) -> Iterator[Difference]:
    """What was offered and is not any more, or has another unit or default; what is new is fine."""
    if failure(old) or failure(new):
        yield from differences(old, new, names, 0.0)
        return
    for each in differences(old, new, names, 0.0):
        if not isinstance(each.old, Absent) and not isinstance(each.where[-1], int):
            yield each
    yield from _lost_words(old, new, names, ())


def _lost_words(old: Any, new: Any, names: Names, where: tuple[str, ...]) -> Iterator[Difference]:
    """Lists of words in any order: which of the older ones the newer lacks."""
    if isinstance(old, dict) and isinstance(new, dict):
        for name, value in old.items():
            yield from _lost_words(value, new.get(names.new(name)), names, (*where, names.new(name)))
    elif isinstance(old, list) and isinstance(new, list):
        yield from (Difference((*where, word), word, ABSENT) for word in old if names.new(word) not in new)


def told(value: Any) -> str:
    """A value at full precision, as text of one line."""
    text = value if isinstance(value, str) else repr(value)
    return " ".join(text.split())


def apart(old: str, new: str) -> Sequence[str]:
    """Two texts, cut to where they differ if they are long."""
    if max(len(old), len(new)) <= LONGEST:
        return old, new
    start = next((i for i, (a, b) in enumerate(zip(old, new, strict=False)) if a != b), min(len(old), len(new)))
    start = max(0, start - LONGEST // 4)
    return [("…" if start else "") + text[start : start + LONGEST] for text in (old, new)]
