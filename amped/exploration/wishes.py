"""Wishes of the user: `memory_per_accelerator_bytes < 70 GB and tensor_parallel_degree <= 8`. Parsed, never evaluated."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from amped.aliases import aliases
from amped.catalogue import Catalogue
from amped.errors import AmpedError, ConfigError, Problem, did_you_mean
from amped.evaluate import Array
from amped.units import parse

COMPARISONS = {"<=": np.less_equal, ">=": np.greater_equal, "<": np.less, ">": np.greater,
               "==": np.equal, "!=": np.not_equal}  # fmt: skip
_WISH = re.compile(r"\s*([A-Za-z_]\w*)\s*(<=|>=|==|!=|=|<|>)\s*(\S.*?)\s*")
_AND = re.compile(r"\s+and\s+|\s*&&\s*", re.IGNORECASE)
LONGEST = 1000


@dataclass(frozen=True)
class Wish:
    """One comparison of a quantity with a value in its canonical unit, or of a choice with a text."""

    name: str
    comparison: str
    value: float | str
    written: str

    def holds(self, data: Array) -> NDArray[np.bool_]:
        """Where it is fulfilled."""
        return COMPARISONS[self.comparison](data, self.value)

    def chosen(self, choice: str) -> bool:
        """Whether a choice fulfils it."""
        return (choice == self.value) == (self.comparison == "==")


def read_wishes(texts: Iterable[str], catalogue: Catalogue) -> tuple[Wish, ...]:
    """The comparisons of all texts.

    Raises:
        ConfigError: for another form, unknown names, values of another unit, wishes that contradict: all at once.
    """
    found: list[Wish] = []
    problems: list[Problem] = []
    for text in texts:
        for each in _AND.split(text[:LONGEST]):
            try:
                found.append(_read(each, catalogue))
            except AmpedError as error:
                problems += error.at(f"--where {text[:60]!r}")
    problems += [Problem(f"{', '.join(w.written for w in wishes)} contradict one another", "--where", "drop one of them")
                 for wishes in _by_name(found).values() if _contradict(wishes)]  # fmt: skip
    if problems:
        raise ConfigError(problems)
    return tuple(dict.fromkeys(found))


def _read(text: str, catalogue: Catalogue) -> Wish:
    match = _WISH.fullmatch(text)
    if match is None:
        raise ConfigError(f"{text!r} is not NAME < VALUE", 'for example "memory_per_accelerator_bytes < 70 GB"')
    written, comparison, value = match.groups()
    name, comparison = aliases().canonical(written), comparison.replace("==", "=").replace("=", "==")
    comparison = {"<==": "<=", ">==": ">=", "!==": "!="}.get(comparison, comparison)
    names = [n for n, q in catalogue.items() if q.mark.kind != "records"]
    if name not in names:
        raise ConfigError(f"there is no quantity '{written}'", did_you_mean(written, names))
    return Wish(name, comparison, _value(catalogue, name, comparison, value), f"{name} {comparison} {value}")


def _value(catalogue: Catalogue, name: str, comparison: str, text: str) -> float | str:
    mark = catalogue[name].mark
    if mark.unit == "choice":
        choice = next((c for c in mark.choices if c.casefold() == text.casefold()), None)
        if choice is None or comparison not in ("==", "!="):
            raise ConfigError(f"'{name}' is one of {', '.join(mark.choices)}", "compare it by = or !=")
        return choice
    if text.casefold() in ("true", "false"):
        return float(text.casefold() == "true")
    return parse(text, mark.unit, mark.bare)


def _by_name(wishes: Iterable[Wish]) -> Mapping[str, list[Wish]]:
    named: dict[str, list[Wish]] = {}
    for wish in wishes:
        named.setdefault(wish.name, []).append(wish)
    return named


def _contradict(wishes: list[Wish]) -> bool:
    """Whether no value fulfils all: none of those compared with, none between two neighbours, none beyond."""
    if isinstance(wishes[0].value, str):
        options = {str(w.value) for w in wishes} | {""}  # the empty text stands for every other choice
        return not any(all(w.chosen(o) for w in wishes) for o in options)
    ends = np.unique([float(w.value) for w in wishes])
    tried = np.concatenate([ends, (ends[1:] + ends[:-1]) / 2, [-np.inf, np.inf]])
    return not np.logical_and.reduce([w.holds(tried) for w in wishes]).any()
