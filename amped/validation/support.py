"""What of a configuration is validated: for each aspect that it uses, how many measured runs had it too, and how near they are.

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
    """A validated run: its name, what its error depends on, and the values of its row."""

    id: str
    ground: Ground
    values: Mapping[str, Any]


@dataclass(frozen=True)
class Aspect:
    """One aspect that a configuration uses, with its evidence.

    Attributes:
        title: what it is, in words.
        name, value: the quantity that says it, and its value.
        grade: the evidence, as the module's head says.
        near, runs: validated runs with it on the same generation of accelerators, and on all.
    """

    title: str
    name: str
    value: Any
    grade: str
    near: int
    runs: int


@dataclass(frozen=True)
class Support:
    """What amped has of a configuration.

    Attributes:
        not_modeled: what amped cannot express, and the estimate leaves out.
        aspects: what the configuration uses, those with the least evidence first.
        ignored: what is given, and changes nothing.
        near, runs: validated runs on the same generation of accelerators, and on all.
        same: the runs with the same network, accelerators and mapping.
    """

    not_modeled: tuple[str, ...]
    aspects: tuple[Aspect, ...]
    ignored: tuple[str, ...]
    near: int
    runs: int
    same: tuple[str, ...]


def support(e: Estimation, not_modeled: Sequence[str] = (), ignored: Sequence[str] = ()) -> Support:
    """What amped has of a configuration.

    Args:
        e: its estimate.
        not_modeled: what the imported file has and amped has not.
        ignored: what the imported file says without effect.
    """
    runs, ground = validated_runs_with_values(), e.ground
    near = [run for run in runs if run.ground.generation == ground.generation]
    same = tuple(run.id for run in near if run.ground.accelerator == ground.accelerator and _is_same(e, run))
    grades = (LAW, FAR, NEAR, MEASURED)
    aspects = sorted(_aspects(e, runs, near, bool(same)), key=lambda aspect: grades.index(aspect.grade))
    unread = [f"{name} is given, and nothing here uses it" for name in e.unread]
    return Support(tuple(not_modeled), tuple(aspects), (*unread, *ignored), near=len(near), runs=len(runs), same=same)


def _aspects(e: Estimation, runs: Sequence[Run], near: Sequence[Run], measured: bool) -> Iterator[Aspect]:
    """The aspects that a configuration uses."""
    for row in _rows():
        value = _value(e, row["name"])
        if value in (None, row["usual"]):
            continue
        of_near, of_all = (sum(_has(run, row, value) for run in group) for group in (near, runs))
        grade = (MEASURED if measured else NEAR) if of_near else FAR if of_all else LAW
        yield Aspect(row["title"], row["name"], value, grade=grade, near=of_near, runs=of_all)


def _value(e: Estimation, name: str) -> Any:
    """The value of a quantity in an estimate; None if it has none."""
    return e.choices.get(name, e[name] if name in e else e.scenario.sources.given.get(name))


def _has(run: Run, row: Mapping[str, Any], value: Any) -> bool:
    """Whether a run had an aspect: the same value, or any beyond the usual one."""
    of_run = run.values.get(row["name"], row["usual"])
    return bool(of_run == value if row.get("same") else of_run != row["usual"])


def _is_same(e: Estimation, run: Run) -> bool:
    """Whether a run is of the same network, number of accelerators and mapping; what its row does not say is 1 or left open."""
    names = run.values.keys() & {*IDENTITY}
    return {"layers", "number_of_accelerators"} <= names and all(_value(e, name) == run.values[name] for name in names)


@lru_cache(maxsize=1)
def _rows() -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = shipped_json("validation", "aspects.json")["rows"]
    return rows


@lru_cache(maxsize=1)
def validated_runs_with_values() -> tuple[Run, ...]:
    """The validated runs whose inputs are known well, with the values of their rows in canonical units."""
    rows = {row.texts.get("id"): row for row in read_table(None, catalogue())}
    return tuple(
        Run(run.id, run.ground, _values(rows[run.id].settings))
        for run in validated()
        if run.quantity == TIME_LAW.quantity and run.confidence != "low" and run.id in rows
    )


def _values(settings: Mapping[str, Any]) -> dict[str, Any]:
    """The values of a row, of its network's row and of its software's, as far as aspects need them."""
    tables, names = user_tables(), {*(row["name"] for row in _rows()), *IDENTITY}
    written: dict[str, Any] = {}
    for name, table in (("software", SOFTWARE), ("model", MODELS)):
        row = str(settings.get(name))
        written |= tables.row(table, row).columns if tables.has(table, row) else {}
    written |= settings
    return {name: read_value(catalogue()[name], written[name]) for name in names & written.keys()}
