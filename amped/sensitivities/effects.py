"""How a result changes with each parameter, as data: one effect for each parameter, with its trials."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from functools import cached_property
from operator import gt, lt
from typing import Any

from amped.base.errors import ResolveError, did_you_mean

# If the elasticities below and above the value differ by more than this share of the larger one, the curve bends.
BENT = 0.05
NOISE = 1e-9
# No result depends on a parameter with so large a power, so that a steeper slope is a jump.
STEEPEST = 50.0


@dataclass(frozen=True)
class Trial:
    """Another value of one parameter; all other parameters stay unchanged.

    Attributes:
        value: the other value of the parameter, in its canonical unit.
        result: the result at this value; None if a rule is broken.
        broken: the rule that this value breaks, or why there is no result.
        fits_in_memory: whether the configuration with this value fits in memory.
    """

    value: float
    result: float | None
    broken: str
    fits_in_memory: bool


@dataclass(frozen=True)
class Effect:
    """One parameter, and how its other values change the result.

    Attributes:
        kind: "mapping", "system", "accelerator", "model" or "experiment".
        varied: how: "relative" (by a small share down and up), "step" (from zero, of which no share can be taken),
            "neighbor" (the next whole values that keep every rule; of a machine, the next halves and doubles), "switch" (the
            other of two values) or "list" (the values in the config).
        base: the result of the configuration itself.
        trials: the other values, in ascending order.
        replaces: given values that this one replaces, as `--set` would: a clock replaces the published peak.
    """

    name: str
    kind: str
    unit: str
    value: float
    varied: str
    base: float
    trials: tuple[Trial, ...]
    replaces: tuple[str, ...] = ()

    @cached_property
    def told(self) -> tuple[Trial, ...]:
        """The trials that have a result."""
        return tuple(trial for trial in self.trials if trial.result is not None)

    @cached_property
    def elasticity(self) -> float | None:
        """Elasticity, d ln result / d ln parameter; None if a logarithm does not exist, or if the result jumps."""
        return None if self.jumps else self._slope(lt, gt)

    @cached_property
    def elasticity_below(self) -> float | None:
        """The elasticity toward smaller values only."""
        return self._slope(lt)

    @cached_property
    def elasticity_above(self) -> float | None:
        """The elasticity toward larger values only."""
        return self._slope(gt)

    @property
    def jumps(self) -> bool:
        """Whether the result jumps within the small step, as a rounding does; the slope then means nothing."""
        return any(abs(slope or 0.0) > STEEPEST for slope in (self.elasticity_below, self.elasticity_above))

    @property
    def smooth(self) -> bool | None:
        """Whether the elasticities on both sides agree, so that no bend is here; None if a side is missing."""
        below, above = self.elasticity_below, self.elasticity_above
        if below is None or above is None:
            return None
        return abs(above - below) <= BENT * max(abs(above), abs(below)) + NOISE

    @cached_property
    def largest_change(self) -> float:
        """The largest change of the result over all trials, as a share of it, or absolute if the result is zero."""
        return max((self.change(trial) for trial in self.told), key=abs, default=0.0)

    def change(self, trial: Trial) -> float:
        """The change of the result in a trial, as a share of the result, or absolute if the result is zero."""
        difference = (self.base if trial.result is None else trial.result) - self.base
        return difference / abs(self.base) if self.base else difference

    def _slope(self, *sides: Callable[[float, float], bool]) -> float | None:
        """The slope in logarithms, over the configuration itself and the first trial with a result on each of these sides."""
        points = {self.value: self.base}
        for is_there in sides:
            trials = (t for t in self.trials if is_there(t.value, self.value))
            points |= next(({t.value: t.result} for t in trials if t.result is not None), {})
        low, high = min(points), max(points)
        if self.varied != "relative" or low == high or min(points.values()) <= 0:
            return None
        return math.log(points[high] / points[low]) / math.log(high / low)

    def to_dict(self) -> dict[str, Any]:
        """The effect as plain data, in canonical names and units."""
        return {
            **_fields(self, "name", "kind", "unit", "value", "varied"),
            "replaces": list(self.replaces), "result": self.base,
            **_fields(self, "elasticity", "elasticity_below", "elasticity_above", "smooth", "jumps", "largest_change"),
            "trials": [asdict(trial) for trial in self.trials],
        }  # fmt: skip


@dataclass(frozen=True)
class Sensitivity:
    """How one result changes with each parameter.

    Attributes:
        title: the title of the configuration.
        of: the name of the result; `unit` is its unit and `value` its value.
        fits_in_memory: whether the configuration fits in memory.
        step: the share by which continuous parameters are varied, down and up.
        effects: the effect of each parameter, the largest elasticity first, then the largest change.
        choices: the selectors and their values, which are not varied because they choose other formulas.
    """

    title: str
    of: str
    unit: str
    value: float
    fits_in_memory: bool
    step: float
    effects: tuple[Effect, ...]
    choices: dict[str, str]

    def __getitem__(self, name: str) -> Effect:
        """The effect of one parameter.

        Raises:
            ResolveError: for a name that was not varied.
        """
        effects = {effect.name: effect for effect in self.effects}
        if name not in effects:
            raise ResolveError(f"'{name}' is not varied here", did_you_mean(str(name), effects))
        return effects[name]

    @property
    def elasticities(self) -> list[Effect]:
        """The effects that are given as an elasticity, the largest first."""
        return sorted((e for e in self.effects if e.elasticity), key=lambda e: -abs(e.elasticity or 0.0))

    @property
    def changes(self) -> list[Effect]:
        """The effects that are given as a change of the result, the largest first."""
        effects = (e for e in self.effects if e.elasticity is None and e.largest_change)
        return sorted(effects, key=lambda e: -abs(e.largest_change))

    @property
    def without_effect(self) -> list[Effect]:
        """The parameters on which the result does not depend, as far as they were varied."""
        return [e for e in self.effects if e.told and not e.elasticity and not e.largest_change]

    @property
    def stuck(self) -> list[Effect]:
        """The parameters for which no other value that keeps every rule was found."""
        return [e for e in self.effects if not e.told]

    def to_dict(self) -> dict[str, Any]:
        """All effects as plain data."""
        fields = _fields(self, "of", "unit", "value", "fits_in_memory", "step")
        return fields | {"parameters": [effect.to_dict() for effect in self]}

    def __iter__(self) -> Iterator[Effect]:
        return iter((*self.elasticities, *self.changes, *self.without_effect, *self.stuck))


def _fields(record: Effect | Sensitivity, *names: str) -> dict[str, Any]:
    """Some fields of a record, by name."""
    return {name: getattr(record, name) for name in names}
