"""Which aspects of a configuration are validated: how many measured runs had each aspect too, and how near these runs are.

Grades: `measured`: a validated run had the same network, accelerators and mapping; `validated near`: runs on an accelerator
of the same generation had the aspect; `validated far`: only runs on others; `by law only`: no run had it, and nothing but the
equations speaks for it. What amped does not model comes from the file that was imported, and is told first.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, NamedTuple

from amped.base.files import shipped_json
from amped.configuring.values import read_value
from amped.estimation.estimation import Estimation
from amped.estimation.grade import FAR, LAW, MEASURED, NEAR
from amped.estimation.uncertainty import TIME_LAW
from amped.estimation.validated import Ground, validated
from amped.tables.table_files import MODELS, SOFTWARE
from amped.tables.tables import user_tables
from amped.theory.language.catalogue import catalogue
from amped.validation.table import read_table

# A run is the same configuration if it agrees in these.
IDENTITY = (
    "layers", "dimensionality", "number_of_experts", "number_of_accelerators", "tensor_parallel_degree", "pipeline_parallel_degree",
    "context_parallel_degree", "expert_parallel_degree", "microbatch_size", "batch_size", "context",
)  # fmt: skip


class Run(NamedTuple):
    """A validated run: its id, what its error depends on, and the values of its row by quantity."""

    id: str
    ground: Ground
    values: Mapping[str, Any]


@dataclass(frozen=True)
class Aspect:
    """One aspect of a configuration, such as pipeline parallelism, with its evidence.

    Attributes:
        title: the aspect in words.
        name: the quantity that shows the aspect.
        value: the value of this quantity.
        grade: how good the evidence is; the docstring of the module explains the grades.
        near: validated runs with the aspect on the same generation of accelerators.
        runs: validated runs with the aspect on all accelerators.
    """

    title: str
    name: str
    value: Any
    grade: str
    near: int
    runs: int


@dataclass(frozen=True)
class Support:
    """The evidence that amped has for a configuration.

    Attributes:
        not_modeled: what amped cannot express, and the estimate leaves out.
        aspects: the aspects of the configuration, those with the least evidence first.
        ignored: what is given and has no effect.
        near: validated runs on the same generation of accelerators.
        runs: validated runs on all accelerators.
        same: the ids of runs with the same network, accelerators and mapping.
        notices: rows whose figures are preliminary, with their dates.
    """

    not_modeled: tuple[str, ...]
    aspects: tuple[Aspect, ...]
    ignored: tuple[str, ...]
    near: int
    runs: int
    same: tuple[str, ...]
    notices: tuple[str, ...] = ()


def support(e: Estimation, not_modeled: Sequence[str] = (), ignored: Sequence[str] = ()) -> Support:
    """The evidence that amped has for a configuration.

    Args:
        e: its estimate.
        not_modeled: what the imported file has and amped cannot express.
        ignored: what the imported file gives without effect.
    """
    runs, ground = validated_runs_with_values(), e.ground
    near_runs = [run for run in runs if run.ground.generation == ground.generation]
    same_runs = tuple(run.id for run in near_runs if run.ground.accelerator == ground.accelerator and _is_same(e, run))
    grades = (LAW, FAR, NEAR, MEASURED)
    aspects = sorted(_aspects(e, runs, near_runs, bool(same_runs)), key=lambda aspect: grades.index(aspect.grade))
    unread = [f"{name} is given, and nothing here uses it" for name in e.unread]
    return Support(
        not_modeled=tuple(not_modeled), aspects=tuple(aspects), ignored=(*unread, *ignored), near=len(near_runs), runs=len(runs), same=same_runs,
        notices=tuple(e.scenario.sources.preliminary),
    )  # fmt: skip


def _aspects(e: Estimation, runs: Sequence[Run], near: Sequence[Run], has_same_run: bool) -> Iterator[Aspect]:
    """The aspects that a configuration uses: the quantities whose value is not the usual one.

    Args:
        e: its estimate.
        runs: all validated runs.
        near: those on the same generation of accelerators.
        has_same_run: whether one of them is the same configuration.
    """
    for row in _aspect_rows():
        value = _value(e, row["name"])
        if value in (None, row["usual"]):
            continue
        near_count, count = (sum(_has_aspect(run, row, value) for run in group) for group in (near, runs))
        grade = (MEASURED if has_same_run else NEAR) if near_count else FAR if count else LAW
        yield Aspect(title=row["title"], name=row["name"], value=value, grade=grade, near=near_count, runs=count)


def _value(e: Estimation, name: str) -> Any:
    """The value of a quantity in an estimate, or the given value; None if there is none."""
    return e.choices.get(name, e[name] if name in e else e.scenario.sources.given.get(name))


def _has_aspect(run: Run, row: Mapping[str, Any], value: Any) -> bool:
    """Whether a run had an aspect: the same value if the row of the aspect says `same`, else any value but the usual one."""
    run_value = run.values.get(row["name"], row["usual"])
    return bool(run_value == value if row.get("same") else run_value != row["usual"])


def _is_same(e: Estimation, run: Run) -> bool:
    """Whether a run has the network, number of accelerators and mapping of an estimate.

    What the row of the run does not say is not compared.
    """
    names = run.values.keys() & {*IDENTITY}
    return {"layers", "number_of_accelerators"} <= names and all(_value(e, name) == run.values[name] for name in names)


@lru_cache(maxsize=1)
def _aspect_rows() -> list[dict[str, Any]]:
    """The rows of aspects.json: title, quantity and usual value of each aspect."""
    rows: list[dict[str, Any]] = shipped_json("validation", "aspects.json")["rows"]
    return rows


@lru_cache(maxsize=1)
def validated_runs_with_values() -> tuple[Run, ...]:
    """The validated runs whose inputs are known well, with the values of their rows in canonical units."""
    rows = {row.texts.get("id"): row for row in read_table(None, catalogue())}
    return tuple(
        Run(id=run.id, ground=run.ground, values=_run_values(rows[run.id].settings))
        for run in validated()
        if run.quantity == TIME_LAW.quantity and run.confidence != "low" and run.id in rows
    )


def _run_values(settings: Mapping[str, Any]) -> dict[str, Any]:
    """The values of a run by quantity, in canonical units; only those that aspects and IDENTITY need.

    They come from the row of the run, and from the rows of its network and its software.
    """
    tables, names = user_tables(), {*(row["name"] for row in _aspect_rows()), *IDENTITY}
    written: dict[str, Any] = {}
    for name, table in (("software", SOFTWARE), ("model", MODELS)):
        row = str(settings.get(name))
        written |= tables.row(table, row).columns if tables.has(table, row) else {}
    written |= settings
    return {name: read_value(catalogue()[name], written[name]) for name in names & written.keys()}
