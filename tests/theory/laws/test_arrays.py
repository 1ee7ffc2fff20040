"""Laws of arrays: every formula gives of many values at once what it gives of each alone."""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache, cached_property
from itertools import count
from typing import Any

import numpy as np
import pytest

from amped.theory.language.catalogue import Formula, catalogue
from amped.theory.nouns.records import STRUCTURE, Record, TimedKernels
from tests.helpers.laws import SHAPES, estimate_of, leaves, names_of, title, used_formulas

FACTORS = (1.0, 2.0, 1.7)
# Of a formula's calls with records of one structure; more tell no more.
MOST_CALLS = 5


# An argument as a scalar run has it, and what it is varied by.
Argument = tuple["Cell", float]


def is_table(data: object) -> bool:
    """Whether these are measured kernels: a table, which all configurations of a run share."""
    return isinstance(data, tuple) and bool(data) and isinstance(data[0], TimedKernels)


def varied(data: object, unit: str, factor: float) -> object:
    """Another value of the same kind: a count stays whole, a boolean turns."""
    if is_table(data):
        return data
    if isinstance(data, tuple):
        return tuple(record.mapped(lambda v: np.asarray(v, dtype=np.float64) * factor) for record in data)
    array = np.asarray(data, dtype=np.float64)
    if unit == "boolean":
        return array if factor != 2.0 else 1 - array
    return np.ceil(array * factor) if unit == "count" else array * factor


def calls_of(shapes: Iterator[str]) -> dict[Formula, list[list[Argument]]]:
    """For each formula, the arguments it is called with: those of the scalar runs and variations of them, yet to be made."""
    calls: dict[Formula, list[list[Argument]]] = {}
    known, turn = catalogue(), count()
    for shape in shapes:
        found, formulas = estimate_of(shape).results.cells, estimate_of(shape).plan.by_name.values()
        needed = {argument for formula in formulas for argument in formula.arguments}
        cells = {name: Cell(found[name][0], known[name].mark.unit) for name in needed}
        for formula in formulas:
            for factor in FACTORS if formula.arguments else ():
                row = []
                for argument in formula.arguments:  # neighbors vary by different factors
                    own = 1.0 if factor == 1.0 else FACTORS[(next(turn) + FACTORS.index(factor)) % len(FACTORS)]
                    row.append((cells[argument], own))
                calls.setdefault(formula, []).append(row)
    return calls


def stacked(values: list[Any]) -> Any:
    """One array of several values; for records, records of such arrays."""
    first = values[0]
    if is_table(first):
        return first
    if isinstance(first, tuple):
        return tuple(stacked(list(group)) for group in zip(*values, strict=True))
    if isinstance(first, Record):
        return type(first)(*(stacked([getattr(record, name) for record in values]) for name in names_of(type(first))))
    if isinstance(first, STRUCTURE):
        return first
    return np.concatenate([np.asarray(v, dtype=np.float64).reshape(-1) for v in values])


@dataclass(eq=False)
class Cell:
    """A value that a shape gives to many formulas: what is asked of it for each is found once."""

    value: object
    unit: str

    @cached_property
    def structure(self) -> tuple[object, ...]:
        """The kinds, texts and switches of its records, which no variation changes."""
        found = [*leaves(self.value)]
        return (len(found), *(leaf for leaf in found if isinstance(leaf, str | bool)))

    @cache  # noqa: B019 (cells live as long as the test)
    def times(self, factor: float) -> object:
        """Another value of the same kind."""
        return varied(self.value, self.unit, factor)


def structure(row: list[Argument]) -> tuple[object, ...]:
    return tuple(cell.structure for cell, _ in row)


def made(row: list[Argument]) -> list[object]:
    return [cell.times(factor) for cell, factor in row]


def flat(result: object, length: int) -> list[bytes]:
    """The results as bytes, one for each of `length` calls."""
    if is_table(result):
        return [b"".join(kernels.time.tobytes() for kernels in result)] * length  # type: ignore[attr-defined]
    numbers: list[Any] = [leaf for leaf in leaves(result) if not isinstance(leaf, STRUCTURE)]
    columns = [np.broadcast_to(np.asarray(n, dtype=np.float64).reshape(-1), (length,)) for n in numbers]
    return [b"".join(column[i].tobytes() for column in columns) for i in range(length)]


@pytest.mark.thorough
def test_every_formula_called_with_arrays_equals_the_scalar_calls_bit_for_bit() -> None:
    unequal, called = [], set()
    with np.errstate(all="ignore"):
        for formula, rows in calls_of(iter(SHAPES)).items():
            kinds: dict[tuple[object, ...], list[list[Argument]]] = {}
            for row in rows:
                kinds.setdefault(structure(row), []).append(row)
            for found in kinds.values():
                alike = [made(row) for row in found[:: -(-len(found) // MOST_CALLS)]]
                whole = formula.function(*(stacked(list(column)) for column in zip(*alike, strict=True)))
                alone = [flat(formula.function(*row), 1)[0] for row in alike]
                if flat(whole, len(alike)) != alone:
                    unequal.append(title(formula))
                called.add(title(formula))
    # Of several numbers of micro-batches the moments of each are told; what a stage holds at most is that of its own.
    assert {name.partition("__")[0] for name in unequal} <= {"stage_chunks_in_flight"}
    assert called == {title(f) for f in used_formulas() if f.arguments}


def test_no_formula_changes_what_it_is_given() -> None:
    changed = []
    with np.errstate(all="ignore"):
        for formula, rows in calls_of(iter(["mixture of experts", "latent attention"])).items():
            row = [stacked([value]) for value in made(rows[0])]
            before = [flat(value, 1) for value in row]
            formula.function(*row)
            changed += [title(formula)] if [flat(value, 1) for value in row] != before else []
    assert changed == []
