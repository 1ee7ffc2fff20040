"""The objective: a quantity, and whether more or less of it is better."""

from __future__ import annotations

import re
from dataclasses import dataclass

from amped.base.aliases import aliases
from amped.base.errors import ConfigError, did_you_mean
from amped.theory.catalogue import Catalogue

SHORT = {"memory": "memory_per_accelerator_bytes", "time": "training_time", "mfu": "model_flops_utilization",
         "hfu": "hardware_flops_utilization", "throughput": "tokens_per_second_per_accelerator"}  # fmt: skip
# The endings of names (before any `_per_`) of which more is better.
_MORE = re.compile(r"(utilization|efficiency|flop_rate|bandwidth|goodput_fraction|largest_microbatch_size|capacity)")


@dataclass(frozen=True)
class Objective:
    """A quantity to rank by; `sign` times its value is smaller for better candidates."""

    name: str
    sign: float


def read_objective(written: str, largest: bool | None, catalogue: Catalogue) -> Objective:
    """The objective with that name; the name decides what is better, unless `largest` does.

    Raises:
        ConfigError: for a name that is not a quantity.
    """
    name = quantity_named(written)
    names = [
        n for n, q in catalogue.items() if q.mark.kind != "records" and not q.is_selector and not q.mark.constrains
    ]
    if name not in names:
        raise ConfigError(f"there is no quantity '{written}' to rank by", did_you_mean(written, [*SHORT, *names]))
    more = more_is_better(name) if largest is None else largest
    return Objective(name, -1.0 if more else 1.0)


def quantity_named(written: str) -> str:
    """The canonical name of a quantity, which may be written in a short form such as "memory"."""
    return SHORT.get(written.casefold(), aliases().canonical(written))


def more_is_better(name: str) -> bool:
    """Whether the name is one of which more is better: throughput, utilization, rates."""
    stem = name.split("_per_")[0]
    return name.startswith("tokens_per_second") or bool(_MORE.search(stem)) or "flops_utilization" in name
