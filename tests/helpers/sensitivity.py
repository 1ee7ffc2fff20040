"""One value of one parameter, estimated alone: what a row of the side-by-side run must equal."""

from functools import cache
from typing import Any

import amped
from amped.base.errors import MappingError
from amped.configuring.scenario import ConfigSource
from amped.sensitivities.analysis import EVERY_KIND
from amped.sensitivities.effects import Effect, Sensitivity
from amped.theory.language.catalogue import catalogue

KNOWN = catalogue()
PLAIN = ("1", "count", "boolean")


@cache
def sensitivity(config: str, of: str = "step_time") -> Sensitivity:
    """Every parameter varied, whatever its kind."""
    return amped.sensitivity(config, of=of, kinds=EVERY_KIND)


def written(unit: str, value: float) -> object:
    """A value as a user would give it."""
    return value if unit in PLAIN else f"{value!r} {unit}"


def alone(config: ConfigSource, of: str, effect: Effect, value: float, **others: Any) -> float | None:
    """The result with one other value, by an estimate of that configuration; None where no machine can run it."""
    others[effect.name] = written(effect.unit, value)
    try:
        return amped.estimate(config, **others)[of]
    except MappingError:
        return None
