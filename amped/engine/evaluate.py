"""Evaluates a plan, for one configuration or for a joint axis of many and open axes, with the same formulas.

A scalar run feeds shape-(1,) float64 arrays. Inside a run, the joint axis of an array is the last one, so that the
innermost loops are long. In the arrays that `Results` returns, it is the first one, and the open axes follow.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from functools import lru_cache, partial, reduce
from operator import or_
from typing import Any

import numpy as np
from numpy.typing import NDArray

from amped.base.errors import EvaluationError, Problem
from amped.base.numbers import settable
from amped.configuring.kernel_tables import KernelTable
from amped.configuring.layout_text import Layout
from amped.engine.axes import JointAxis, JointBlock
from amped.engine.known import Known, source_of
from amped.engine.resolve import Plan
from amped.theory.language.catalogue import Formula
from amped.theory.nouns.records import Duration, Record
from amped.theory.nouns.stage_records import Share

Array = NDArray[np.float64]
Mask = NDArray[np.bool_]
# Arrays by name: the values of the variables.
Columns = Mapping[str, Array]
Joint = JointAxis | JointBlock
# The joint axis of a scalar run: one row and no variables.
NO_TUPLES = JointAxis({})


class Results(Mapping[str, Array]):
    """The values of a run by name: arrays with one axis for the joint tuples and one for each open axis.

    Attributes:
        cells: the data of each name (an array, or records), and the mask of the joint variables that they depend on.
    """

    def __init__(self, plan: Plan, joint: Joint, shape: tuple[int, ...]) -> None:
        self.plan, self.joint, self.shape = plan, joint, shape
        self.cells: dict[str, tuple[Any, int]] = {}
        self.numbers: dict[str, int] = {}  # those by which `Known` tells values apart
        self.sound = False  # whether every number is known to be finite

    def __getitem__(self, name: str) -> Array:
        """The value over all joint tuples; an open axis that the value does not depend on has length 1."""
        return np.moveaxis(self.spread(name), -1, 0)

    def spread(self, name: str) -> Array:
        """The value over all joint tuples, with the joint axis last, as in memory."""
        data, mask = self.cells[name]
        return gathered(self.joint, data, mask, self.joint.full)  # type: ignore[no-any-return]

    def arrays(self, name: str) -> list[Array]:
        """The array of a quantity, or those of all numbers of its records, over all joint tuples, with the joint axis last."""
        data, mask = self.cells[name]
        if isinstance(data, np.ndarray):
            return [self.spread(name)]
        numbers: list[Array] = []
        for record in gathered(self.joint, data, mask, self.joint.full):
            record.mapped(lambda value: numbers.append(np.asarray(value)))
        return numbers

    def __contains__(self, name: object) -> bool:
        return name in self.cells and isinstance(self.cells[str(name)][0], np.ndarray)

    def __iter__(self) -> Iterator[str]:
        return (name for name, (data, _) in self.cells.items() if isinstance(data, np.ndarray))

    def __len__(self) -> int:
        return sum(1 for _ in self)

    def number(self, name: str) -> float:
        """The value of a quantity in a scalar run."""
        return float(self.cells[name][0].item())

    def records(self, name: str) -> tuple[Any, ...]:
        """The records of a quantity in a scalar run, with floats in place of arrays."""
        data, _ = self.cells[name]
        return tuple(record.mapped(lambda v: float(np.asarray(v).reshape(-1)[0])) for record in data)

    def whole(self, name: str) -> Array:
        """The value over the whole grid."""
        return np.broadcast_to(self[name], self.shape)


def run(
    plan: Plan,
    values: Mapping[str, Any],
    joint: JointAxis = NO_TUPLES,
    axes: Columns | None = None,
    keep: frozenset[str] | None = None,
) -> Results:
    """Evaluates the plan.

    Args:
        plan: the formulas, in order.
        values: the numbers of the sources that are not swept.
        joint: valid tuples of the variables that must divide or multiply.
        axes: the values of each other swept variable, which gets an open axis of its own.
        keep: the names to keep (None keeps all). The other names are dropped after their last use.

    Raises:
        EvaluationError: if a formula fails.
    """
    results = _of_leaves(plan, values, joint, axes or {})
    formulas = [*plan.by_name.values()]
    _take(formulas, results, [()] * len(formulas) if keep is None else _last_uses(formulas, keep))
    return results


def run_layouts(base: Results, name: str, layouts: np.ndarray) -> Results:
    """The results of a scalar run with other layouts of its pipeline, all at once.

    Only formulas that need the layout are evaluated again.

    Args:
        base: the results with one layout.
        name: the name of the layout.
        layouts: for each layout, stage and chunk, the number of layers of every kind.

    Raises:
        EvaluationError: if a formula fails.
    """
    joint = JointAxis({name: np.arange(len(layouts), dtype=np.float64)}, worthwhile=0.0)
    results, late = Results(base.plan, joint, (joint.size,)), dict[str, Formula]()
    for formula in base.plan.by_name.values():
        if name in formula.arguments or not late.keys().isdisjoint(formula.arguments):
            late[formula.name] = formula
    results.cells.update((n, cell) for n, cell in base.cells.items() if n not in late)
    results.cells[name] = _shares(layouts), joint.full
    _take(late.values(), results, [()] * len(late))
    return results


def run_each(plans: Sequence[Plan], given: Sequence[Mapping[str, Any]]) -> list[Results]:
    """Evaluates several configurations at once, whose plans have one structure.

    Each result is bit for bit that of `run`.

    Raises:
        EvaluationError: if a formula fails for any of the configurations.
    """
    plan, values = plans[0].opened, [{**one.defaults, **row} for one, row in zip(plans, given, strict=True)]
    varied = [n for n in plan.leaves if not isinstance(values[0][n], str) and len({row[n] for row in values}) > 1]
    columns = {name: np.array([float(row[name]) for row in values]) for name in varied}
    whole = run(plan, values[0], JointAxis(columns, worthwhile=0.0) if varied else NO_TUPLES)
    numbers = [array.ravel() for name, (data, _) in whole.cells.items() for _, array in _numbers(name, data)]
    sound = bool(np.isfinite(np.concatenate(numbers)).all())
    return [_alone(one, whole, place, sound) for place, one in enumerate(plans)]


def _alone(plan: Plan, whole: Results, place: int, sound: bool) -> Results:
    """The results of one tuple of a joint axis, in the form of a scalar run."""
    results = Results(plan, NO_TUPLES, (1,))
    results.cells, results.sound = _Cut(whole, place), sound
    return results


class _Cut(dict[str, tuple[Any, int]]):
    """The cells of a run; each is cut to one tuple of the joint axis when it is first read."""

    def __init__(self, whole: Results, place: int) -> None:
        super().__init__(whole.cells)
        self.joint, self.place = whole.joint, place

    def __getitem__(self, name: str) -> tuple[Any, int]:
        data, mask = super().__getitem__(name)
        if mask:
            spread = gathered(self.joint, data, mask, self.joint.full)
            data = _each(spread, self.joint.size, lambda v: v[..., self.place : self.place + 1])
            self[name] = data, 0
        return data, 0


def run_in_blocks(
    plan: Plan,
    values: Mapping[str, Any],
    joint: JointAxis,
    axes: Columns,
    keep: frozenset[str],
    rows: int,
    known: Known | None = None,
) -> Iterator[Results]:
    """Evaluates the plan for one block of the joint axis after another; yields the results of each block.

    Quantities that depend on few of the joint variables are computed once for all blocks. `plan`, `values`, `joint`,
    `axes` and `keep` are as for `run`; `rows` is the number of rows of a block; `known` has the values of the latest run,
    which are reused.

    Raises:
        EvaluationError: if a formula fails.
    """
    once = _of_leaves(plan, values, joint, axes)
    extents = once.shape[1:]
    late = _depending(plan, joint, once.cells, rows * math.prod(extents))
    early, late_formulas = [f for name, f in plan.by_name.items() if name not in late], [*late.values()]
    needed = keep.union(*(formula.arguments for formula in late_formulas))
    if known is not None:
        known.begin(len(once.shape))
        once.numbers = {name: known.number(source_of(name, values, joint, axes)) for name in plan.leaves}
    _take(early, once, _last_uses(early, needed), known)
    held = {name: cell for name, cell in once.cells.items() if name in needed}
    last_uses = _last_uses(late_formulas, keep)
    for start in range(0, joint.size, rows):
        block = JointBlock(joint, start, start + rows)
        results = Results(plan, block, (block.size, *extents))
        results.cells.update({name: _rows(cell, block) for name, cell in held.items()})
        _take(late_formulas, results, last_uses)
        yield results


def _of_leaves(plan: Plan, values: Mapping[str, Any], joint: JointAxis, axes: Columns) -> Results:
    """Results that have the values of the sources, and no computed value yet."""
    results = Results(plan, joint, (joint.size, *map(len, axes.values())))
    results.cells.update({name: _leaf(name, values, joint, axes) for name in plan.leaves})
    return results


def _depending(plan: Plan, joint: JointAxis, leaves: Mapping[str, tuple[Any, int]], most: int) -> dict[str, Formula]:
    """The formulas, by name, whose results depend on all joint variables and have more than `most` numbers.

    All formulas that need one of them are included.
    """
    masks = {name: mask for name, (_, mask) in leaves.items()}
    shapes = {name: () if isinstance(data, tuple) else data.shape[:-1] for name, (data, _) in leaves.items()}
    late: dict[str, Formula] = {}
    for name, formula in plan.by_name.items():
        masks[name] = joint.settled(_union(masks[argument] for argument in formula.arguments))
        shapes[name] = _joined(*{shapes[argument] for argument in formula.arguments})
        large = masks[name] == joint.full and joint.size * math.prod(shapes[name]) > most
        if large or not late.keys().isdisjoint(formula.arguments):
            late[name] = formula
    return late


@lru_cache(maxsize=4096)
def _joined(*shapes: tuple[int, ...]) -> tuple[int, ...]:
    """The shape to which some shapes are broadcast together; cached, as a plan has few different ones."""
    return np.broadcast_shapes(*shapes)


def _union(masks: Iterable[int]) -> int:
    """The mask of all variables that are in any of the masks."""
    return reduce(or_, masks, 0)


def _rows(cell: tuple[Any, int], block: JointBlock) -> tuple[Any, int]:
    """A cell of the whole axis, cut to the rows of a block if it has a value for each row."""
    data, mask = cell
    return (_each(data, block.whole.size, lambda v: v[..., block.rows]), mask) if mask == block.full else cell


def _each(data: Any, rows: int, change: Callable[[Any], Any]) -> Any:
    """The array of a quantity, or its records, with `change` applied to each array whose last axis has `rows` values.

    Other arrays do not depend on the rows, and stay unchanged.
    """
    if isinstance(data, np.ndarray):
        return change(data) if data.shape[-1:] == (rows,) else data
    seen: dict[int, Any] = {}  # records often share arrays, and each is changed once

    def once(value: Any) -> Any:
        changed = seen.get(id(value))
        if changed is None:
            has_rows = isinstance(value, np.ndarray) and value.shape[-1:] == (rows,)
            changed = seen[id(value)] = change(value) if has_rows else value
        return changed

    return tuple(record.mapped(once) for record in data)


def _take(
    formulas: Iterable[Formula], results: Results, last_uses: Iterable[Collection[str]], known: Known | None = None
) -> None:
    """Adds the results of formulas, in their order, to the cells of `results`.

    Args:
        formulas: the formulas.
        results: already has the input values; the results of the formulas are added.
        last_uses: for each formula, the names to drop after it.
        known: values of an earlier run, which are reused.
    """
    cells, joint, dimensions = results.cells, results.joint, len(results.shape)
    with np.errstate(all="ignore"):
        for formula, unneeded in zip(formulas, last_uses, strict=True):
            mask = 0
            for name in formula.arguments:
                mask |= cells[name][1]
            mask = joint.settled(mask)
            if known is None:
                cells[formula.name] = _evaluated(formula, mask, cells, joint, dimensions)
            else:
                compute = partial(_evaluated, formula, mask, cells, joint, dimensions)
                cells[formula.name] = known.value(formula, mask, joint.full, results.numbers, compute)
            for name in unneeded:
                del cells[name]


def check_finite(results: Results) -> None:
    """Raises an error if a result of a scalar run is not a finite number.

    Raises:
        EvaluationError: with the first formula at fault and the values that it was given.
    """
    for name, formula in () if results.sound else results.plan.by_name.items():
        for what, data in _numbers(name, results.cells[name][0]):
            number = float(data.item())
            if not math.isfinite(number):
                advice = f"it was computed from {_arguments(formula, results.cells)}"
                raise EvaluationError(Problem(f"{what} came out as {number}", advice=advice))


def _numbers(name: str, data: Any) -> Iterator[tuple[str, Array]]:
    """The array of a quantity, or the time of each of its durations, each with a text that names it."""
    if isinstance(data, np.ndarray):
        yield f"'{name}'", data
    elif data and isinstance(data[0], Duration):
        yield from ((f"the time of '{d.name}' in '{name}'", np.asarray(d.time)) for d in data)


def _leaf(name: str, values: Mapping[str, Any], joint: JointAxis, axes: Columns) -> tuple[Any, int]:
    """The cell of a source: its value in the form that formulas take, and its mask."""
    extent = [1] * (1 + len(axes))
    if isinstance(layout := values.get(name), Layout):
        return tuple(_share(f"stage {n}", chunks, extent) for n, chunks in enumerate(layout.counts)), 0
    if isinstance(table := values.get(name), KernelTable):
        return table.kernels, 0
    if name in joint.columns or name in joint.tied:
        column, mask = joint.column(name)
        return column.reshape(*extent[1:], -1), mask
    if name in axes:
        extent[list(axes).index(name)] = -1
        return np.asarray(axes[name], dtype=np.float64).reshape(extent), 0
    return np.full(extent, values[name], dtype=np.float64), 0


def _shares(layouts: np.ndarray) -> tuple[Share, ...]:
    """The layers that each of several layouts lists, as arrays with one value for each layout."""
    stages = enumerate(np.moveaxis(layouts, 0, -1).astype(np.float64))
    return tuple(Share(f"stage {n}", tuple(map(tuple, chunks))) for n, chunks in stages)


def _share(name: str, chunks: Sequence[Sequence[float]], extent: list[int]) -> Share:
    """The layers that a layout lists for a stage, as arrays."""
    return Share(name, tuple(tuple(np.full(extent, layers) for layers in chunk) for chunk in chunks))


def _evaluated(formula: Formula, mask: int, cells: dict[str, Any], joint: Joint, dimensions: int) -> tuple[Any, int]:
    """The result of a formula on the rows of a mask, and the mask of the result (0 if all rows are equal)."""
    arguments = [cells[name] for name in formula.arguments]
    values = [gathered(joint, data, held, mask) if held else data for data, held in arguments]
    if mask and isinstance(joint, JointBlock):  # every later formula needs all rows
        for name, value, (_, held) in zip(formula.arguments, values, arguments, strict=True):
            if held not in (0, mask):
                cells[name] = value, mask
    try:
        result = formula.function(*values)
        return (tuple(result), mask) if formula.mark.kind == "records" else _array(result, mask, joint, dimensions)
    except Exception as error:
        reason = f"{type(error).__name__}: {error}" if str(error) else type(error).__name__
        raise EvaluationError(Problem(
            f"the formula of '{formula.name}' failed: {reason}", advice=f"it was given {_arguments(formula, cells)}"
        )) from error  # fmt: skip


def _array(result: Any, mask: int, joint: Joint, dimensions: int) -> tuple[Array, int]:
    """A formula's result as an array with the dimensions of the run, and the mask of its rows."""
    array, rows = np.asarray(result, dtype=np.float64), joint.length(mask)
    if array.ndim == 0:
        return array.reshape((1,) * dimensions), 0
    if array.ndim != dimensions or array.shape[-1] not in (1, rows):
        raise ValueError(f"it returned an array of shape {array.shape}")
    return array, mask if array.shape[-1] == rows else 0


def gathered(joint: Joint, data: Any, held: int, mask: int) -> Any:
    """The array of a quantity, or its records, with mask `held`, repeated for the rows of `mask`, which contains `held`.

    All rows exist, so that mode "clip" clips nothing; it is twice as fast as the mode that checks.
    """
    if held in (0, mask):
        return data
    index = joint.index(held, mask)
    return _each(data, joint.length(held), lambda v: v.take(index, axis=-1, mode="clip"))


def _last_uses(formulas: Sequence[Formula], keep: Collection[str]) -> list[set[str]]:
    """For each formula, the names that no later formula needs and that are not to be kept."""
    needed, last_uses = set(keep), []
    for formula in reversed(formulas):
        last_uses.append({formula.name, *formula.arguments} - needed)
        needed |= last_uses[-1]
    return last_uses[::-1]


def _arguments(formula: Formula, cells: Mapping[str, Any]) -> str:
    """The text `name = value` for each argument of a formula, for a message."""
    shown = []
    for name in formula.arguments:
        data = cells[name][0]
        if isinstance(data, np.ndarray):
            shown.append(f"{name} = {settable(data.item())}" if data.size == 1 else f"{name} = {data.size} values")
        elif data and isinstance(data[0], Record):
            shown.append(f"{name} = {len(data)} records")
    return ", ".join(shown) or "nothing"
