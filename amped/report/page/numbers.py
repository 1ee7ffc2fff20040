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
    """A result as text with its unit."""
    if isinstance(value, list):
        return "; ".join(map(str, e.not_modeled)) or "none"
    if isinstance(value, bool | str):
        return human.value(value, "boolean") if isinstance(value, bool) else value or "none"
    names = e.scenario.catalogue
    unit = names[name].mark.unit if name in names else OTHER_UNITS.get(name, "1")  # an error is a share
    is_share = unit == "1" and ("_utilization" in name or name.endswith("_fraction"))
    return human.percent(value) if is_share else human.value(value, unit)


def headline(results: dict[str, Number]) -> list[Number]:
    """The results of `HEADLINE`, without those that are unknown for this machine."""
    return [results[name] for name in HEADLINE if not str(results[name].value).startswith("unknown")]
