"""What varying the parameters did to a result, as data: one effect for each parameter, its trials in it."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from functools import cached_property
from typing import Any

from amped.base.errors import ResolveError, did_you_mean

# Elasticities below and above the value that differ by more than this share of the larger are not of one line.
BENT = 0.05
NOISE = 1e-9
# No result goes with such a power of a parameter.
STEEPEST = 50.0


@dataclass(frozen=True)
class Trial:
    """Another value of one parameter, all else as it was.

    Attributes:
        value: the parameter's, in its canonical unit.
        result: what came out; None where a rule is broken.
        broken: the rule that this value breaks, or why there is no result.
        fits_in_memory: whether it fits.
    """

    value: float
    result: float | None
    broken: str
    fits_in_memory: bool


@dataclass(frozen=True)
class Effect:
    """One parameter, and what its other values make of the result.

    Attributes:
        kind: "mapping", "system", "accelerator", "model" or "experiment".
        varied: how: "relative" (a small share less and more), "step" (from zero, which has no share), "neighbor" (the
            next whole values that keep every rule), "switch" (the other of two) or "list" (values of the config).
        base: the result at this value.
        trials: the other values in rising order.
        replaces: given values in whose place this one stands, as with `--set`: a clock in that of the published peak.
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
        """How d ln result goes with d ln parameter; None where a logarithm does not exist, or the result jumps."""
        return None if self.jumps else self._slope(*self._below, (self.value, self.base), *self._above)

    @cached_property
    def elasticity_below(self) -> float | None:
        """The same toward smaller values only."""
        return self._slope(*self._below, (self.value, self.base))

    @cached_property
    def elasticity_above(self) -> float | None:
        """The same toward larger values only."""
        return self._slope((self.value, self.base), *self._above)

    @property
    def jumps(self) -> bool:
        """Whether the result leaps within the small step, as a rounding does: then the slope says nothing."""
        return any(abs(slope or 0.0) > STEEPEST for slope in (self.elasticity_below, self.elasticity_above))

    @property
    def smooth(self) -> bool | None:
        """Whether both sides tell the same elasticity: no maximum or rounding bends here; None where a side is missing."""
        below, above = self.elasticity_below, self.elasticity_above
        if below is None or above is None:
            return None
        return abs(above - below) <= BENT * max(abs(above), abs(below)) + NOISE

    @cached_property
    def largest_change(self) -> float:
        """The change of the result that is largest in size, over all trials: a share of it, or itself where it is zero."""
        return max((self.change(trial) for trial in self.told), key=abs, default=0.0)

    def change(self, trial: Trial) -> float:
        """The change of the result with a trial, as a share of the result, or itself where that is zero."""
        difference = (self.base if trial.result is None else trial.result) - self.base
        return difference / abs(self.base) if self.base else difference

    @property
    def _below(self) -> list[tuple[float, float]]:
        """The first trial with a result below the value, where there is one."""
        return [(t.value, t.result) for t in self.trials if t.result is not None and t.value < self.value][:1]

    @property
    def _above(self) -> list[tuple[float, float]]:
        """The first trial with a result above the value, where there is one."""
        return [(t.value, t.result) for t in self.trials if t.result is not None and t.value > self.value][:1]

    def _slope(self, *points: tuple[float, float]) -> float | None:
        """From the first point to the last, in logarithms."""
        (low, before), (high, after) = points[0], points[-1]
        if self.varied != "relative" or low == high or min(before, after) <= 0:
            return None
        return math.log(after / before) / math.log(high / low)

    def to_dict(self) -> dict[str, Any]:
        """The same as plain data, in canonical names and units."""
        return {
            **_told(self, "name", "kind", "unit", "value", "varied"),
            "replaces": list(self.replaces), "result": self.base,
            **_told(self, "elasticity", "elasticity_below", "elasticity_above", "smooth", "jumps", "largest_change"),
            "trials": [asdict(trial) for trial in self.trials],
        }  # fmt: skip


@dataclass(frozen=True)
class Sensitivity:
    """How one result changes with each parameter.

    Attributes:
        title: the configuration.
        of: the result's name, `unit` its unit and `value` its value.
        fits_in_memory: whether the configuration does.
        step: the share by which continuous parameters are varied, down and up.
        effects: of each parameter, the largest elasticity first, then the largest change.
        choices: what is not varied, because other formulas take over: the selectors and their values.
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
        found = next((effect for effect in self.effects if effect.name == name), None)
        if found is None:
            raise ResolveError(f"'{name}' is not varied here", did_you_mean(str(name), (e.name for e in self.effects)))
        return found

    @property
    def elasticities(self) -> list[Effect]:
        """The effects that are told as elasticity, the largest first."""
        found = [e for e in self.effects if e.elasticity]
        return sorted(found, key=lambda e: -abs(e.elasticity or 0.0))

    @property
    def changes(self) -> list[Effect]:
        """The effects that are told as change of the result, the largest first."""
        found = [e for e in self.effects if e.elasticity is None and e.largest_change]
        return sorted(found, key=lambda e: -abs(e.largest_change))

    @property
    def without_effect(self) -> list[Effect]:
        """The parameters on which the result does not depend, as far as they were varied."""
        return [e for e in self.effects if e.told and not e.elasticity and not e.largest_change]

    @property
    def stuck(self) -> list[Effect]:
        """The parameters of which no other value was found that keeps every rule."""
        return [e for e in self.effects if not e.told]

    def to_dict(self) -> dict[str, Any]:
        """The same as plain data."""
        told = _told(self, "of", "unit", "value", "fits_in_memory", "step")
        return told | {"parameters": [effect.to_dict() for effect in self]}

    def __iter__(self) -> Iterator[Effect]:
        return iter((*self.elasticities, *self.changes, *self.without_effect, *self.stuck))


def _told(record: Effect | Sensitivity, *names: str) -> dict[str, Any]:
    """Some of what a record says, by name."""
    return {name: getattr(record, name) for name in names}
