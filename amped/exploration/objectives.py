"""The objective: a quantity, and whether more or less of it is better."""

from __future__ import annotations

import re

from amped.base.aliases import aliases
from amped.base.errors import ConfigError, did_you_mean
from amped.base.record import dataclass
from amped.theory.language.catalogue import Catalogue
from amped.theory.language.doors import inside

# The endings of names (before any `_per_`) of which more is better.
_MORE = re.compile(r"(utilization|efficiency|flop_rate|bandwidth|goodput_fraction|largest_microbatch_size|capacity)")


@dataclass(frozen=True)
class Objective:
    """A quantity to rank by; `sign` times its value is smaller for better candidates."""

    name: str
    sign: float


def read_objective(written: str, largest: bool | None, catalogue: Catalogue) -> Objective:
    """The objective that ranks by a quantity.

    Args:
        written: the name as the user writes it.
        largest: whether the largest value is the best; if None, the name decides.
        catalogue: all quantities.

    Raises:
        ConfigError: for a name that is not a quantity.
    """
    name = aliases().asked(written)
    names = [name for name in catalogue.numbers if not catalogue[name].is_selector]
    if name in catalogue.inside:
        raise ConfigError(inside(name, catalogue))
    if name not in names:
        raise ConfigError(
            f"there is no quantity '{written}' to rank by", did_you_mean(written, [*aliases().results, *names])
        )
    more = more_is_better(name) if largest is None else largest
    return Objective(name, -1.0 if more else 1.0)


def more_is_better(name: str) -> bool:
    """Whether more of the quantity with this name is better, as of throughput, utilization and rates."""
    stem = name.split("_per_")[0]
    return name.startswith("tokens_per_second") or bool(_MORE.search(stem)) or "flops_utilization" in name
