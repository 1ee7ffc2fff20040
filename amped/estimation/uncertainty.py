"""How far an estimate may be off: the errors of validated runs like it, and in which respects it is unlike all of them.

The quantities are the step's time and memory; a record for each, an `ErrorLaw`, says what its band comes from.
What is new in an estimate decides which errors count: its source is always new, as nobody's own run was in the fit; its
accelerator, its software or both may be new, too. The errors are those of fits that left the same out of each run: its
source; with it all runs on its accelerator; all runs with its software; both. No number of memory is fitted.
The band is that of split conformal prediction for groups: each source weighs the same, however many runs it has, because
the runs of a source err alike. It holds 80 % of the runs of a further source if this one is like the validated ones. If a
class has too few runs or sources, the next wider class is used. Readings of memory have few sources, so that there each
configuration weighs the same.
Less knowledge never makes a band narrower. Where no class with the accelerator or with the software has enough runs, the band
is at least the one of each other accelerator, or software, that has enough, and each property that no run has widens it.
Runs whose inputs are known badly are heard there, too; they may widen a band, and never make it narrower.
Source: Vovk, Gammerman and Shafer, Algorithmic Learning in a Random World (2005), section 2.2; Lei et al., J. Am. Stat.
Assoc. 113 (2018), section 2 (split conformal); Lee, Barber and Willett, arXiv 2306.06342, section 3 (errors in groups).
"""

from __future__ import annotations

import math
from collections.abc import Hashable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import cached_property, lru_cache
from typing import Any, NamedTuple

from amped.base.record import dataclass
from amped.estimation.validated import STEP_TIME, Ground, Left, Validated, error_size, validated, well_known

COVERED = 0.8
# The factor by which each property that no validated run has widens the band.
WIDENED = 1.1
# The sum of weights may be off by rounding.
ROUNDING = 1e-9
# The properties that may be new in an estimate, beside its source, and what is new if one or both are.
MAY_BE_NEW = ("accelerator", "software")
NEWNESS = {
    (False, False): Left.SOURCE,
    (True, False): Left.ACCELERATOR,
    (False, True): Left.STACK,
    (True, True): Left.ALL,
}


@dataclass(frozen=True)
class ErrorLaw:
    """What the error band of one quantity comes from.

    Attributes:
        quantity: the quantity whose errors are compared.
        classes: for what is new, classes of runs, from the nearest to the widest, each by the properties that its runs share.
            Those of one generation are too few to tell about a new accelerator.
        fewest_groups, fewest_sources: the fewest configurations and sources that a class needs. From nine sources on, the
            quantile is not the largest error.
        kin: the property that the error depends on most: other properties are compared with runs that share it.
        unknown: what is said where no run has an accelerator or a software.
        one_source: what is said where all runs of the kin are of one source, so that without it the kin is unknown to a
            fit; empty if nothing is fitted to the quantity.
        by_source: whether each source weighs the same; else each configuration does.
        rivals: the properties without which the band is at least that of each other value that is known better.
    """

    quantity: str
    classes: Mapping[Left, tuple[tuple[str, ...], ...]]
    fewest_groups: int
    fewest_sources: int
    kin: str
    unknown: Mapping[str, str]
    one_source: str = ""
    by_source: bool = True
    rivals: tuple[str, ...] = MAY_BE_NEW


TIME_LAW = ErrorLaw(
    quantity=STEP_TIME, kin="accelerator", fewest_groups=15, fewest_sources=9,
    classes={
        Left.SOURCE: (("accelerator", "software", "experts"), ("accelerator", "experts"), ("generation", "software", "experts"),
                      ("software", "experts"), ("generation", "experts"), ("experts",), ()),
        Left.ACCELERATOR: (("software", "experts"), ("experts",), ()),
        Left.STACK: (("accelerator", "experts"), ("generation", "experts"), ("experts",), ()),
        Left.ALL: (("experts",), ()),
    },
    unknown={"accelerator": "no run on {} was validated", "software": "no run with {} was validated"},
    one_source="all validated runs on {} are of one source",
)  # fmt: skip
# What is held in memory depends on what the software keeps, and hardly on the accelerator.
MEMORY_LAW = ErrorLaw(
    quantity="memory_per_accelerator_bytes", kin="software", fewest_groups=5, fewest_sources=1, by_source=False, rivals=(),
    classes={Left.SOURCE: (("software",), ()), Left.ACCELERATOR: ((),), Left.STACK: ((),), Left.ALL: ((),)},
    unknown={"software": "no memory was read with {}", "accelerator": "no memory was read on {}"},
)  # fmt: skip
ERROR_LAWS = (TIME_LAW, MEMORY_LAW)


@dataclass(frozen=True)
class ErrorBand:
    """How far a quantity, the step's time or memory, may be off.

    Attributes:
        error_fraction: e; in four runs of five, the quantity is between its value / (1 + e) and its value * (1 + e).
        runs: the number of validated runs that the band comes from.
        alike: what these runs have in common; they are the nearest class with enough runs.
        beyond: in which respects the configuration is outside of what was validated.
        newness: what no validated run has: always the source, and perhaps the accelerator, the software, or both.
    """

    error_fraction: float
    runs: int
    alike: str
    beyond: tuple[str, ...]
    newness: Left = Left.SOURCE

    def holds(self, size: float) -> bool:
        """Whether an error of this size, a logarithm, lies in the band."""
        return size <= math.log1p(self.error_fraction)


class _Kind(NamedTuple):
    """The properties of a configuration on which its class depends."""

    accelerator: str
    software: str
    generation: str
    experts: str
    mixer: str


def _kind(ground: Ground) -> _Kind:
    """The properties of a configuration on which its class depends."""
    return _Kind(ground.accelerator, ground.software, ground.generation, ground.experts, ground.mixer)


class _Class(NamedTuple):
    """A class of runs.

    Attributes:
        names: the properties that its runs share with the configuration.
        runs: its runs.
        size: the size of error, as a logarithm, below which most future runs stay.
    """

    names: tuple[str, ...]
    runs: Sequence[Validated]
    size: float


class Bands:
    """The error bands that some validated runs give.

    Attributes:
        law: the quantity, and the rules for its band.
        runs, doubtful: the runs with an error of the quantity: those with well-known inputs, and those with badly known ones.
    """

    def __init__(self, runs: Sequence[Validated], law: ErrorLaw) -> None:
        """Takes the runs, and the law of the quantity."""
        self.law, self.runs = law, well_known(runs, law.quantity)
        self.doubtful = [run for run in runs if run.quantity == law.quantity and run.confidence == "low"]
        self._runs_alike: dict[tuple[str, ...], dict[tuple[Any, ...], list[Validated]]] = {}
        self._told_runs: dict[Hashable, list[Validated]] = {}
        self._sizes: dict[Hashable, float | None] = {}
        self._nearest: dict[_Kind, _Class] = {}
        self._bounded: dict[_Kind, float] = {}

    def band(self, ground: Ground) -> ErrorBand:
        """The error band of one configuration; its fraction is NaN if there are no runs at all."""
        new, beyond = self.newness(ground), tuple(self.beyond(ground))
        if not self.runs:
            return ErrorBand(math.nan, runs=0, alike="no validated run", beyond=beyond, newness=new)
        nearest = self.nearest(ground)
        size = self._bounded_size(_kind(ground)) * WIDENED ** self._times_widened(ground)
        in_common = ", ".join(getattr(ground, name) for name in nearest.names if getattr(ground, name)) or "all of them"
        band = ErrorBand(math.expm1(size), runs=len(nearest.runs), alike=in_common, beyond=beyond, newness=new)
        return max((band, *self._doubted(ground, band)), key=lambda each: each.error_fraction)

    def newness(self, ground: _Kind | Ground) -> Left:
        """What no run has of a configuration; software without a name is new.

        If no run mixes tokens as the network does, no fit has seen its kernels on this accelerator or with this software.
        """
        if ground.mixer and not self._like(ground, ("mixer",)):
            return Left.ALL
        accelerator, software = (not self._like(ground, (name,)) for name in MAY_BE_NEW)
        return NEWNESS[accelerator, software]

    def _times_widened(self, ground: Ground) -> int:
        """How often a band is widened: for each respect in which the configuration goes beyond its kin.

        A new accelerator or software is in the errors that count, if a fit left them out; nothing of memory is fitted, so that
        they widen its band, too.
        """
        number_new = {Left.SOURCE: 0, Left.ALL: 2}.get(self.newness(ground), 1)
        return len([*self._beyond_kin(ground)]) + (0 if self.law.one_source else number_new)

    def nearest(self, ground: Ground) -> _Class:
        """The nearest class with enough runs; if none has, all runs with their largest error."""
        return self._nearest_class(_kind(ground))

    def _nearest_class(self, kind: _Kind) -> _Class:
        """The nearest class with enough runs; if none has, all runs with their largest error."""
        if kind not in self._nearest:
            left = self.newness(kind)
            sizes = ((names, self._size(kind, names, left)) for names in self.law.classes[left])
            found = next(((names, size) for names, size in sizes if size is not None), None)
            names, size = found or ((), max(run.size(left) for run in self.runs))
            self._nearest[kind] = _Class(names, self._told(kind, names, left) or self.runs, size)
        return self._nearest[kind]

    def _bounded_size(self, kind: _Kind) -> float:
        """The size of error of the nearest class or, if that is larger, of the same configuration with a property known better.

        If no run has the accelerator, or the software, these are all others; if some have, but too few for a class that shares
        it, those that have enough.
        """
        if kind not in self._bounded:
            nearest = self._nearest_class(kind)
            lacking = [name for name in self.law.rivals if name not in nearest.names]
            rivals = [self._bounded_size(other) for name in lacking for other in self._rivals(kind, name)]
            self._bounded[kind] = max([nearest.size, *rivals])
        return self._bounded[kind]

    def _rivals(self, kind: _Kind, name: str) -> Iterator[_Kind]:
        """The configuration with each other value of a property that is known better."""
        is_new = not self._like(kind, (name,))
        for (value,), runs in self._by((name,)).items():
            generation = {"generation": runs[0].ground.generation} if name == "accelerator" else {}
            other = kind._replace(**{name: value}, **generation)
            if is_new or name in self._nearest_class(other).names:
                yield other

    def _size(self, kind: _Kind | Ground, names: tuple[str, ...], left: Left) -> float | None:
        """The size of error below which most future runs of a class stay; None if its runs or sources are too few."""
        key = (left, names, *(getattr(kind, name) for name in names))
        if key not in self._sizes:
            sources = _by_source(self._told(kind, names, left), left)
            groups = [size for sizes in sources for size in sizes]
            enough = len(groups) >= self.law.fewest_groups and len(sources) >= self.law.fewest_sources
            weighed = sources if self.law.by_source else [[size] for size in groups]
            self._sizes[key] = quantile_of_groups(weighed) if enough else None
        return self._sizes[key]

    def _told(self, kind: _Kind | Ground, names: tuple[str, ...], left: Left) -> Sequence[Validated]:
        """The runs of a class whose errors are those of such newness.

        Where only the source is new, these are not the runs whose accelerator or software has one source: without it, a fit
        does not know these.
        """
        if left is not Left.SOURCE or not self.law.one_source:
            return self._like(kind, names)
        key = (names, *(getattr(kind, name) for name in names))
        if key not in self._told_runs:
            self._told_runs[key] = [
                run
                for run in self._like(kind, names)
                if not any(self._is_of_one_source(run.ground, name) for name in MAY_BE_NEW)
            ]
        return self._told_runs[key]

    def _is_of_one_source(self, kind: _Kind | Ground, name: str) -> bool:
        """Whether all runs that share a property with a configuration are of one source."""
        return getattr(kind, name) in self._of_one_source[name]

    @cached_property
    def _of_one_source(self) -> dict[str, set[str]]:
        """The values of accelerator and software whose runs are all of one source."""
        return {
            name: {value for (value,), runs in self._by((name,)).items() if len({run.source for run in runs}) == 1}
            for name in MAY_BE_NEW
        }

    def _like(self, ground: _Kind | Ground, names: tuple[str, ...]) -> Sequence[Validated]:
        """The runs that share the properties `names` with a configuration."""
        return self._by(names).get(tuple(getattr(ground, name) for name in names), ())

    def _by(self, names: tuple[str, ...]) -> dict[tuple[Any, ...], list[Validated]]:
        """The runs by the values of some properties."""
        if names not in self._runs_alike:
            runs_alike = self._runs_alike[names] = {}
            for run in self.runs:
                runs_alike.setdefault(tuple(getattr(run.ground, name) for name in names), []).append(run)
        return self._runs_alike[names]

    def _doubted(self, ground: Ground, band: ErrorBand) -> Iterator[ErrorBand]:
        """For each property that too few runs have, the band of the runs with badly known inputs that have it, if any.

        The current fit has not seen these runs, so that their errors in it are used.
        """
        for name in self.law.unknown:
            if len(_groups(self._like(ground, (name,)))) >= self.law.fewest_groups:
                continue
            sizes = [
                error_size(run.error_fraction)
                for run in self.doubtful
                if getattr(run.ground, name) == getattr(ground, name)
            ]
            if sizes:
                fraction = math.expm1(conformal_quantile(sizes) or max(sizes))
                in_common = f"{getattr(ground, name)}, inputs known badly"
                yield replace(band, error_fraction=fraction, runs=len(sizes), alike=in_common)

    def beyond(self, ground: Ground) -> Iterator[str]:
        """In words, the properties of a configuration that no validated run has.

        Compared are the runs of its kin (on the same accelerator, for the step's time); if there are none, all runs.
        """
        like, law = self._like(ground, (self.law.kin,)), self.law
        if law.one_source and self._is_of_one_source(ground, law.kin):
            yield law.one_source.format(getattr(ground, law.kin))
        for name, sentence in law.unknown.items():
            if not self._like(ground, (name,)):
                yield sentence.format(getattr(ground, name) or f"this {name}")
        if (
            like
            and self._like(ground, ("software",))
            and not self._like(ground, ("accelerator", "software"))
            and law.one_source
        ):
            yield f"no run with {ground.software} on {ground.accelerator} was validated"
        yield from self._beyond_kin(ground)

    def _beyond_kin(self, ground: Ground) -> Iterator[str]:
        """In words, in which respects the network, the precision and the sizes of a configuration go beyond those of its kin."""
        kin = [run.ground for run in self._like(ground, (self.law.kin,)) or self.runs]
        return _beyond(ground, kin)


def _beyond(ground: Ground, kin: Sequence[Ground]) -> Iterator[str]:
    """In words, in which respects the network, the precision and the sizes of a configuration go beyond those of others."""
    for name, noun in (("experts", "network"), ("mixer", "network"), ("precision", "precision")):
        value = getattr(ground, name)
        if value and value not in {getattr(g, name) for g in kin}:
            yield f"no {noun} like this one ({value})"
    for name in ("number_of_accelerators", "number_of_parameters", "context"):
        most = max((getattr(g, name) for g in kin), default=0.0)
        if getattr(ground, name) > most:
            yield f"{name} {getattr(ground, name):,.0f}, validated up to {most:,.0f}"


def _groups(runs: Sequence[Validated]) -> set[str]:
    """The configurations of some runs."""
    return {run.group or run.id for run in runs}


def _by_source(runs: Sequence[Validated], left: Left) -> list[list[float]]:
    """For each source, the sizes of the errors of its configurations; repeats of one configuration have their mean."""
    sources: dict[str, dict[str, list[float]]] = {}
    for run in runs:
        sources.setdefault(run.source, {}).setdefault(run.group or run.id, []).append(run.size(left))
    return [[sum(sizes) / len(sizes) for sizes in groups.values()] for groups in sources.values()]


@lru_cache(maxsize=len(ERROR_LAWS))
def _shipped(quantity: str) -> Bands:
    """The bands that the runs give which come with amped."""
    return Bands(validated(), next(law for law in ERROR_LAWS if law.quantity == quantity))


def bands(runs: Sequence[Validated] | None = None, law: ErrorLaw = TIME_LAW) -> Bands:
    """The bands that validated runs give.

    Args:
        runs: the runs; None for those that come with amped.
        law: the quantity, and the rules for its band.
    """
    return _shipped(law.quantity) if runs is None else Bands(runs, law)


def error_band(ground: Ground, runs: Sequence[Validated] | None = None, law: ErrorLaw = TIME_LAW) -> ErrorBand:
    """The error band of one configuration, from the validated runs that are most like it.

    Less knowledge never makes a band narrower: for an accelerator without runs it is at least as wide as for any other.
    Each property that no validated run has widens a band. Its fraction is NaN if there are no runs at all.

    Args:
        ground: the properties of the configuration.
        runs: the validated runs; None for those that come with amped.
        law: the quantity, and the rules for its band.
    """
    return bands(runs, law).band(ground)


def alike(ground: Ground, runs: Sequence[Validated] | None = None, law: ErrorLaw = TIME_LAW) -> Sequence[Validated]:
    """The runs of the nearest class that has enough of them for an error band."""
    found = bands(runs, law)
    return found.nearest(ground).runs if found.runs else ()


def conformal_quantile(sizes: Sequence[float], covered: float = COVERED) -> float | None:
    """The size below which a share `covered` of all future errors lies; None if there are too few sizes.

    Source: see the module's head.
    """
    place = math.ceil(covered * (len(sizes) + 1))
    return sorted(sizes)[place - 1] if place <= len(sizes) else None


def quantile_of_groups(groups: Sequence[Sequence[float]], covered: float = COVERED) -> float | None:
    """The size below which a share `covered` of the errors of a new group lies; None if there are too few groups.

    Each of K groups weighs 1 / (K + 1), however many errors it has, and the new group weighs as much.

    Source: Lee, Barber and Willett, arXiv 2306.06342, section 3.
    """
    needed, weight = covered * (len(groups) + 1), 0.0
    for size, share in sorted((size, 1 / len(group)) for group in groups for size in group):
        weight += share
        if weight >= needed - ROUNDING:
            return size
    return None
