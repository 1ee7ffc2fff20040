"""Wishes of the user, such as `memory_per_accelerator_bytes < 70 GB and tensor_parallel_degree <= 8`.

They are parsed, never evaluated as code.
"""

from __future__ import annotations

import operator
import re
from collections.abc import Callable, Iterable
from typing import Any

import numpy as np

from amped.base.aliases import aliases
from amped.base.errors import ConfigError, Problem, collected, did_you_mean
from amped.base.record import dataclass
from amped.base.units import COARSE, LEAST_COARSE, parse
from amped.engine.evaluate import Mask
from amped.theory.language.catalogue import Catalogue
from amped.theory.language.doors import inside

COMPARISONS = {"<=": operator.le, ">=": operator.ge, "<": operator.lt, ">": operator.gt,
               "==": operator.eq, "!=": operator.ne}  # fmt: skip
# For each comparison, the one that means the same with its sides exchanged.
TURNED = str.maketrans("<>", "><")
_WISH = re.compile(r"\s*([^<>=!]*[^<>=!\s])\s*(<=|>=|==|!=|=|<|>)\s*([^<>=!\s][^<>=!]*?)\s*")
_NAME = re.compile(r"[A-Za-z_]\w*")
_AND = re.compile(r"\s+and\s+|\s*&&\s*", re.IGNORECASE)
# Long texts would make the search for comparisons slow.
LONGEST = 10_000


@dataclass(frozen=True)
class Wish:
    """One comparison: of a quantity with a value in canonical units or another quantity, or of a choice with a text."""

    name: str
    comparison: str
    value: float | str
    written: str
    other: str = ""

    @property
    def quantities(self) -> tuple[str, ...]:
        """The names of the numbers that the wish compares."""
        return () if isinstance(self.value, str) else tuple(name for name in (self.name, self.other) if name)

    def holds(self, of: Callable[[str], Any]) -> Mask:
        """Where the wish is fulfilled; `of` gives the values of a quantity, or the text of a choice."""
        return np.asarray(COMPARISONS[self.comparison](of(self.name), of(self.other) if self.other else self.value))


def read_wishes(texts: Iterable[str], catalogue: Catalogue) -> tuple[Wish, ...]:
    """The comparisons of all texts.

    Raises:
        ConfigError: for texts of another form, unknown names, wrong units and contradictory wishes, all at once.
    """
    wishes: dict[Wish, None] = {}  # in order, and each once
    problems: list[Problem] = []
    for text in texts:
        place = f"--where {text[:60]!r}"
        if len(text) > LONGEST:
            told = f"has {len(text)} characters, and {LONGEST} are the most"
            problems.append(Problem(told, f"{place}…", "give several --where"))
            continue
        for comparison in _AND.split(text):
            with collected(problems, place):
                wishes[_read(comparison, catalogue)] = None
    for name in dict.fromkeys(wish.name for wish in wishes):
        of_name = [wish for wish in wishes if wish.name == name and not wish.other]
        if of_name and _contradict(of_name):
            told = f"{', '.join(wish.written for wish in of_name)} contradict one another"
            problems.append(Problem(told, "--where", "drop one of them"))
    if problems:
        raise ConfigError(problems)
    return tuple(wishes)


def _read(text: str, catalogue: Catalogue) -> Wish:
    match = _WISH.fullmatch(text)
    if match is None:
        raise ConfigError(f"{text!r} is not NAME < VALUE", 'for example "memory_per_accelerator_bytes < 70 GB"')
    left, comparison, right = match.groups()
    comparison = "==" if comparison == "=" else comparison
    names = [*catalogue.numbers, *catalogue.constraints]
    one, other = (aliases().asked(side) for side in (left, right))
    if private := [name for name in (one, other) if name in catalogue.inside]:
        raise ConfigError(inside(private[0], catalogue))
    if one not in names and other in names:
        left, right, one, other, comparison = right, left, other, one, comparison.translate(TURNED)
    if one not in names:
        raise ConfigError(f"there is no quantity '{left}'", did_you_mean(left, names))
    if other in names:
        return _of_two(catalogue, one, comparison, other)
    meant = did_you_mean(right, names) if _NAME.fullmatch(right) and catalogue[one].mark.unit != "choice" else ""
    if meant:
        raise ConfigError(f"there is no quantity '{right}'", meant)
    return Wish(one, comparison, _value(catalogue, one, comparison, right), f"{one} {comparison} {right}")


def _of_two(catalogue: Catalogue, one: str, comparison: str, other: str) -> Wish:
    units = [catalogue[name].mark.unit for name in (one, other)]
    if units[0] != units[1] or "choice" in units:
        told = ", ".join(f"'{n}' is in {u}" for n, u in zip((one, other), units, strict=True))
        raise ConfigError(f"only numbers of one unit are compared: {told}", "compare each with a value")
    return Wish(one, comparison, 0.0, f"{one} {comparison} {other}", other)


def _value(catalogue: Catalogue, name: str, comparison: str, text: str) -> float | str:
    mark = catalogue[name].mark
    if mark.unit == "choice":
        choices = {choice.casefold(): choice for choice in mark.choices}
        if text.casefold() not in choices or comparison not in ("==", "!="):
            raise ConfigError(f"'{name}' is one of {', '.join(mark.choices)}", "compare it by = or !=")
        return choices[text.casefold()]
    if text.casefold() in ("true", "false"):
        return float(text.casefold() == "true")
    number = parse(text, mark.unit, mark.bare)
    if mark.unit in COARSE and 0 < number < LEAST_COARSE and text.replace(".", "", 1).isdigit():
        told = f"{text} without a unit is {text} {mark.unit}"
        raise ConfigError(told, f'write the unit: "{name} {comparison} {text} {COARSE[mark.unit]}"')
    return number


def _contradict(wishes: list[Wish]) -> bool:
    """Whether no value fulfills all wishes.

    It tries the values in the wishes, one between each two neighbors, and one on either side of all.
    """
    ends = np.unique(np.array([wish.value for wish in wishes]))
    is_choice = isinstance(wishes[0].value, str)
    # Among choices, the empty text stands for all that no wish names.
    more = [[""]] if is_choice else [(ends[1:] + ends[:-1]) / 2, [-np.inf, np.inf]]
    tried = np.concatenate([ends, *more])
    return not np.logical_and.reduce([wish.holds(lambda _: tried) for wish in wishes]).any()
