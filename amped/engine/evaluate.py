"""Evaluates a plan: one configuration, or a joint axis of many beside open axes, with the same formulas.

A scalar run feeds shape-(1,) float64 arrays. In a grid's cells the joint axis is the last, so that the innermost loops are
long; in what `Results` hands out it is the first, and each open axis follows.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from amped.base.errors import EvaluationError, Problem
from amped.configuring.values import Layout
from amped.engine.axes import JointAxis, JointBlock
from amped.engine.resolve import Plan, Step
from amped.theory.catalogue import Formula
from amped.theory.records import Duration, Record
from amped.theory.stage_records import Share

Array = NDArray[np.float64]
Joint = JointAxis | JointBlock


class Results(Mapping[str, Array]):
    """The values of a run by name; an array with an axis for the joint tuples and one for each open axis."""

    def __init__(self, plan: Plan, joint: Joint | None, shape: tuple[int, ...]) -> None:
        self.plan, self.joint, self.shape = plan, joint, shape
        self.cells: dict[str, tuple[Any, int]] = {}

    def __getitem__(self, name: str) -> Array:
        """The value over all joint tuples; axes it does not depend on have length 1."""
        return np.moveaxis(self.spread(name), -1, 0)

    def spread(self, name: str) -> Array:
        """The same with the joint axis last, as it lies in memory."""
        data, mask = self.cells[name]
        if self.joint is None or not mask:
            return data  # type: ignore[no-any-return]
        return self.joint.gathered(data, mask, self.joint.full)  # type: ignore[no-any-return]

    def __contains__(self, name: object) -> bool:
        return name in self.cells and isinstance(self.cells[str(name)][0], np.ndarray)

    def __iter__(self) -> Iterator[str]:
        return (name for name, (data, _) in self.cells.items() if isinstance(data, np.ndarray))

    def __len__(self) -> int:
        return sum(1 for _ in self)

    def number(self, name: str) -> float:
        """The value of a scalar run."""
        return float(self.cells[name][0].item())

    def records(self, name: str) -> tuple[Any, ...]:
        """The records of a scalar run, their arrays as floats."""
        data, _ = self.cells[name]
        return tuple(record.mapped(lambda v: float(np.asarray(v).reshape(-1)[0])) for record in data)

    def whole(self, name: str) -> Array:
        """The value over the whole grid."""
        return np.broadcast_to(self[name], self.shape)


def run(
    plan: Plan,
    values: Mapping[str, Any],
    joint: Joint | None = None,
    axes: Mapping[str, Array] | None = None,
    keep: frozenset[str] | None = None,
) -> Results:
    """Evaluates the plan.

    Args:
        plan: the formulas, in order.
        values: the numbers of the sources that are not swept.
        joint: valid tuples of the variables that must divide or multiply.
        axes: values of each other swept variable, one open axis each.
        keep: the names to keep; all where None. In a grid the others are let go after their last use.

    Raises:
        EvaluationError: if a formula fails.
    """
    axes = axes or {}
    shape = (joint.size if joint else 1, *(len(column) for column in axes.values()))
    results = Results(plan, joint, shape)
    cells = results.cells
    for name in plan.leaves:
        cells[name] = _leaf(name, values, joint, axes)
    _take(plan.steps, results, keep)
    return results


def run_in_blocks(
    plan: Plan,
    values: Mapping[str, Any],
    joint: JointAxis,
    axes: Mapping[str, Array],
    keep: frozenset[str],
    rows: int,
) -> Iterator[Results]:
    """Evaluates the plan block by block of the joint axis: what depends on few of its variables is computed once.

    Args: as of `run`; `rows` are those of a block.

    Raises:
        EvaluationError: if a formula fails.
    """
    extents = tuple(len(column) for column in axes.values())
    once = Results(plan, joint, (joint.size, *extents))
    once.cells.update({name: _leaf(name, values, joint, axes) for name in plan.leaves})
    late = _depending(plan, joint, once.cells, rows * math.prod(extents))
    needed = {name for step in late.values() for name in step.formula.arguments} | keep
    _take([step for step in plan.steps if step.name not in late], once, frozenset(needed))
    held = {name: cell for name, cell in once.cells.items() if name in needed}
    steps = list(late.values())
    last_uses = _last_uses(steps)
    for start in range(0, joint.size, rows):
        block = JointBlock(joint, start, start + rows)
        results = Results(plan, block, (block.size, *extents))
        results.cells.update({name: _rows(cell, block) for name, cell in held.items()})
        _take(steps, results, keep, last_uses)
        yield results


def _depending(plan: Plan, joint: JointAxis, leaves: Mapping[str, tuple[Any, int]], most: int) -> dict[str, Step]:
    """The steps for which each row is on its own and that have more cells than `most`."""
    masks = {name: mask for name, (_, mask) in leaves.items()}
    shapes = {name: () if isinstance(data, tuple) else data.shape[:-1] for name, (data, _) in leaves.items()}
    late: dict[str, Step] = {}
    for step in plan.steps:
        mask = 0
        for name in step.formula.arguments:
            mask |= masks[name]
        masks[step.name] = joint.settled(mask)
        shapes[step.name] = np.broadcast_shapes(*(shapes[name] for name in step.formula.arguments))
        waits = any(name in late for name in step.formula.arguments)
        if waits or (masks[step.name] == joint.full and joint.size * math.prod(shapes[step.name]) > most):
            late[step.name] = step
    return late


def _rows(cell: tuple[Any, int], block: JointBlock) -> tuple[Any, int]:
    """A cell of the whole axis, cut to the rows of a block where it has one for each."""
    data, mask = cell
    if mask != block.full:
        return cell
    if isinstance(data, np.ndarray):
        return data[..., block.rows], mask
    return tuple(record.mapped(lambda v: _cut(v, block)) for record in data), mask


def _cut(value: Any, block: JointBlock) -> Any:
    if isinstance(value, np.ndarray) and value.ndim and value.shape[-1] == block.whole.size > 1:
        return value[..., block.rows]
    return value


def _take(
    steps: Sequence[Step],
    results: Results,
    keep: frozenset[str] | None,
    last_uses: Mapping[int, list[str]] | None = None,
) -> None:
    """Evaluates the steps in their order, and lets go of what is not kept after its last use."""
    cells = results.cells
    last_use = {} if keep is None else _last_uses(steps) if last_uses is None else last_uses
    with np.errstate(all="ignore"):
        for position, step in enumerate(steps):
            cells[step.name] = _evaluated(step.formula, cells, results.joint, len(results.shape))
            for name in last_use.get(position, ()):
                if keep is not None and name not in keep:
                    del cells[name]


def check_finite(results: Results) -> None:
    """Refuses a scalar run with a result that is no number.

    Raises:
        EvaluationError: names the first formula at fault and the values it was given.
    """
    for step in results.plan.steps:
        data, _ = results.cells[step.name]
        for what, number in _numbers(step.name, data):
            if not math.isfinite(number):
                advice = f"it was computed from {_arguments(step.formula, results.cells)}"
                raise EvaluationError(Problem(f"{what} came out as {number}", advice=advice))


def _numbers(name: str, data: Any) -> Iterator[tuple[str, float]]:
    """What a formula gave: its number, or each of its records' times."""
    if isinstance(data, np.ndarray):
        yield f"'{name}'", data.item()
    elif data and isinstance(data[0], Duration):
        yield from ((f"the time of '{d.name}' in '{name}'", float(np.asarray(d.time).item())) for d in data)


def _leaf(name: str, values: Mapping[str, Any], joint: Joint | None, axes: Mapping[str, Array]) -> tuple[Any, int]:
    dimensions = 1 + len(axes)
    if isinstance(layout := values.get(name), Layout):
        shares = enumerate(layout.layers)
        return tuple(Share(f"stage {n}", np.full((1,) * dimensions, layers)) for n, layers in shares), 0
    if joint is not None and (name in joint.columns or name in joint.tied):
        column, mask = joint.column(name)
        return column.reshape(*[1] * len(axes), -1), mask
    if name in axes:
        place = list(axes).index(name)
        extent = [len(axes[name]) if axis == place else 1 for axis in range(dimensions)]
        return np.asarray(axes[name], dtype=np.float64).reshape(extent), 0
    return np.full((1,) * dimensions, values[name], dtype=np.float64), 0


def _evaluated(formula: Formula, cells: dict[str, Any], joint: Joint | None, dimensions: int) -> tuple[Any, int]:
    mask = 0
    arguments = [cells[name] for name in formula.arguments]
    if joint is not None:
        for _, held in arguments:
            mask |= held
        mask = joint.settled(mask)
        values = [_spread(data, held, mask, joint) for data, held in arguments]
        if isinstance(joint, JointBlock):  # where all that is left needs every row: spread once
            cells.update(
                (name, (v, mask)) for name, v, (_, h) in zip(formula.arguments, values, arguments, strict=True) if h
            )
    else:
        values = [data for data, _ in arguments]
    try:
        result = formula.function(*values)
        result = (tuple(result), mask) if formula.mark.kind == "records" else _array(result, mask, joint, dimensions)
    except Exception as error:
        reason = f"{type(error).__name__}: {error}" if str(error) else type(error).__name__
        raise EvaluationError(Problem(
            f"the formula of '{formula.name}' failed: {reason}", advice=f"it was given {_arguments(formula, cells)}"
        )) from error  # fmt: skip
    return result


def _array(result: Any, mask: int, joint: Joint | None, dimensions: int) -> tuple[Array, int]:
    """What a formula returned as an array of the run's dimensions, and the mask of the rows it really has."""
    array = np.asarray(result, dtype=np.float64)
    if array.ndim == 0:
        return array.reshape((1,) * dimensions), 0
    rows = joint.length(mask) if joint is not None else 1
    if array.ndim != dimensions or array.shape[-1] not in (1, rows):
        raise ValueError(f"it returned an array of shape {array.shape}")
    return array, mask if array.shape[-1] == rows else 0


def _spread(data: Any, held: int, wanted: int, joint: Joint) -> Any:
    """A quantity's array, or each array of its records, gathered over the rows wanted."""
    if not held or held == wanted:
        return data
    if isinstance(data, np.ndarray):
        return joint.gathered(data, held, wanted)
    return tuple(record.mapped(lambda v: _spread_field(v, held, wanted, joint)) for record in data)


def _spread_field(value: Any, held: int, wanted: int, joint: Joint) -> Any:
    """A record's field may be a number or lack the joint axis where it does not depend on it."""
    if isinstance(value, np.ndarray) and value.ndim and value.shape[-1] == joint.length(held):
        return joint.gathered(value, held, wanted)
    return value


def _last_uses(steps: Iterable[Step]) -> dict[int, list[str]]:
    """For each step, the names that no later step needs."""
    last: dict[str, int] = {}
    for position, step in enumerate(steps):
        for name in step.formula.arguments:
            last[name] = position
        last.setdefault(step.name, position)
    uses: dict[int, list[str]] = {}
    for name, position in last.items():
        uses.setdefault(position, []).append(name)
    return uses


def _arguments(formula: Formula, cells: Mapping[str, Any]) -> str:
    """`name = value` of each argument, for a message."""
    shown = []
    for name in formula.arguments:
        data = cells[name][0]
        if isinstance(data, np.ndarray):
            shown.append(f"{name} = {data.item():g}" if data.size == 1 else f"{name} = {data.size} values")
        elif data and isinstance(data[0], Record):
            shown.append(f"{name} = {len(data)} records")
    return ", ".join(shown) or "nothing"
