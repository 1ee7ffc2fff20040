"""Every value of `amped estimate --json` as a page shows it: under the same name, with all its digits."""

from __future__ import annotations

from typing import Any

from amped.estimation.estimation import Estimation
from amped.report import human
from amped.report.page.content import Number

# The units of results that no formula has.
OTHER_UNITS = {
    "shortest_step_time": "s", "longest_step_time": "s", "number_of_validated_runs": "count",
    "number_of_memory_readings": "count",
}  # fmt: skip
# What is told first of an estimate.
HEADLINE = (
    "step_time", "training_time", "tokens_per_second_per_accelerator", "model_flops_utilization",
    "memory_per_accelerator_bytes", "fits_in_memory", "cost", "energy", "number_of_accelerators",
)  # fmt: skip


def numbers(e: Estimation, config: int | None = None) -> dict[str, Number]:
    """All results of an estimate by name, in the order of `--json`; `config` is its place on a page of several."""
    return {name: Number(name, value, told(e, name, value), config) for name, value in e.to_dict().items()}


def told(e: Estimation, name: str, value: Any) -> str:
    """A result as people read it, with its unit."""
    if isinstance(value, list):
        return "; ".join(map(str, e.not_modeled)) or "none"
    if isinstance(value, bool | str):
        return human.value(value, "boolean") if isinstance(value, bool) else value or "none"
    unit = unit_of_result(e, name)
    is_share = unit == "1" and ("_utilization" in name or name.endswith("_fraction"))
    return human.percent(value) if is_share else human.value(value, unit)


def unit_of_result(e: Estimation, name: str) -> str:
    """The canonical unit of a result; an error is a share."""
    known = e.scenario.catalogue
    return known[name].mark.unit if name in known else OTHER_UNITS.get(name, "1")


def headline(every: dict[str, Number]) -> list[Number]:
    """What is told first; what is not known of this machine is left out."""
    found = (every[name] for name in HEADLINE)
    return [number for number in found if not str(number.value).startswith("unknown")]
