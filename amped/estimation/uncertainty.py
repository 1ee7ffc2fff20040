"""How far an estimate may be off: the errors of validated runs like it, and in which respects it is unlike all of them.

The quantities are the step's time and memory; a record for each, an `ErrorLaw`, says what its band comes from.
The error of a step is the one without its source: the numbers that are fitted to steps are those of the fit that left
the source out, because nobody's own run was in the fit. For an accelerator without runs, it is the one without its
accelerator. No number of memory is fitted.
The band is that of split conformal prediction: of n errors in ascending order, the ceil(0.8 (n + 1))-th. It holds 80 %
of future runs if these are like the validated ones. If a class has too few runs, the next wider class is used. Runs on
one accelerator are alike, so that for a new accelerator each accelerator counts once. The band is wider for an
accelerator without runs, and for each property that no run has.
Less knowledge never makes a band narrower. Where an accelerator or a software has fewer runs than a class needs, the band
is at least the one of the class without this property, and for the step's time at least the widest one of accelerators
that have enough. Runs whose inputs are known badly are heard there, too; they may widen a band, and never make it narrower.
Source: Vovk, Gammerman and Shafer, Algorithmic Learning in a Random World (2005), section 2.2; Lei et al., J. Am. Stat.
Assoc. 113 (2018), section 2 (split conformal); Lee, Barber and Willett, arXiv 2306.06342, section 3 (errors in groups).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from operator import attrgetter
from typing import NamedTuple

from amped.base.record import dataclass
from amped.estimation.validated import STEP_TIME, Ground, Validated, error_size, validated, well_known

COVERED = 0.8
# The factor by which each property that no validated run has widens the band. With it, if each source is left out in
# turn, 0.8 of its runs lie within the band that the other sources give.
WIDENED = 1.1
# The sum of weights may be off by rounding.
ROUNDING = 1e-9
# Classes of runs, from the nearest to the widest, each by the properties that its runs share.
NEAREST = (
    ("accelerator", "software", "experts"), ("accelerator", "software"), ("accelerator", "experts"), ("accelerator",),
    ("generation", "software", "experts"), ("generation", "experts"), ("generation",), ("experts",), (),
)  # fmt: skip
# The properties of a class that are the network's, and not the machine's.
NETWORK = ("experts",)


@dataclass(frozen=True)
class ErrorLaw:
    """What the error band of one quantity comes from.

    Attributes:
        quantity: the quantity whose errors are compared.
        classes: classes of runs, from the nearest to the widest, each by the properties that its runs share.
        kin: the property that the error depends on most.
        of_new_kin: classes of runs for a new kin. Those of one generation are too few to tell about it.
        fewest: the fewest runs that a class needs. From nine on, the quantile is not the largest error.
        unknown: the properties of which each needs as many runs, or the band is not narrower than without it; for each,
            what is said where no run has it.
        one_source: what is said where all runs of the kin are of one source, so that without it the kin is unknown to a
            fit; empty if nothing is fitted to the quantity.
        least_of_few: whether the band of a kin with fewer runs is no narrower than that of each kin with enough, and the
            band of a kin without runs wider.
    """

    quantity: str
    classes: tuple[tuple[str, ...], ...]
    kin: str
    of_new_kin: tuple[tuple[str, ...], ...]
    fewest: int
    unknown: Mapping[str, str]
    one_source: str = ""
    least_of_few: bool = False


TIME_LAW = ErrorLaw(
    quantity=STEP_TIME, classes=NEAREST, kin="accelerator", of_new_kin=(("experts",), ()), fewest=9,
    unknown={"accelerator": "no run on {} was validated"}, one_source="all validated runs on {} are of one source",
    least_of_few=True,
)  # fmt: skip
# What is held in memory depends on what the software keeps, and hardly on the accelerator.
MEMORY_LAW = ErrorLaw(
    quantity="memory_per_accelerator_bytes", classes=(("software",), ()), kin="software", of_new_kin=((),), fewest=5,
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
    """

    error_fraction: float
    runs: int
    alike: str
    beyond: tuple[str, ...]


class _Class(NamedTuple):
    """A class that has enough runs for an error band.

    Attributes:
        names: the properties that its runs share with the configuration.
        runs: its runs.
        size: the size of error, as a logarithm, below which most future runs stay.
    """

    names: tuple[str, ...]
    runs: Sequence[Validated]
    size: float


Most = Callable[[Sequence[Validated]], float | None]


def error_band(ground: Ground, runs: Sequence[Validated] | None = None, law: ErrorLaw = TIME_LAW) -> ErrorBand:
    """The error band of one configuration, from the validated runs that are most like it.

    Less knowledge never makes a band narrower: for an accelerator without runs it is at least as wide as for any other.
    Each property that no validated run has widens a band. Its fraction is NaN if there are no runs at all.

    Args:
        ground: the properties of the configuration.
        runs: the validated runs; None for those that come with amped.
        law: the quantity, and the rules for its band.
    """
    runs, doubtful = _by_confidence(runs, law)
    beyond = tuple(_beyond(ground, runs, law))
    is_new = not _like(ground, runs, (law.kin,))
    nearest = (_nearest_of_new_kin if is_new else _nearest)(ground, runs, law)
    if nearest is None:
        return ErrorBand(math.nan, runs=0, alike="no validated run", beyond=beyond)
    size = max(nearest.size, _least_without(ground, runs, law)) * WIDENED ** len(beyond)
    least = _least_of_few(ground, runs, nearest, law)
    in_common = ", ".join(getattr(ground, name) for name in nearest.names if getattr(ground, name)) or "all of them"
    band = ErrorBand(math.expm1(max(size, least)), runs=len(nearest.runs), alike=in_common, beyond=beyond)
    return max((band, *_doubted(ground, runs, doubtful, law, beyond)), key=lambda other: other.error_fraction)


def _least_without(ground: Ground, runs: Sequence[Validated], law: ErrorLaw) -> float:
    """The size of error of all runs together, if too few runs have one of the properties that the band needs; else 0.0."""
    return (_most_of_runs(law, runs) or 0.0) if any(_rarely_known(ground, runs, law)) else 0.0


def _rarely_known(ground: Ground, runs: Sequence[Validated], law: ErrorLaw) -> Iterator[str]:
    """The properties that a band needs and that fewer runs than `law.fewest` share with the configuration."""
    yield from (name for name in law.unknown if len(_like(ground, runs, (name,))) < law.fewest)


def _least_of_few(ground: Ground, runs: Sequence[Validated], nearest: _Class, law: ErrorLaw) -> float:
    """The widest size of error of any kin with enough runs; 0.0 if the nearest class is of the configuration's own kin."""
    if not law.least_of_few or law.kin in nearest.names:
        return 0.0
    of_network = tuple(name for name in nearest.names if name in NETWORK)
    return _widest_of_kin(_like(ground, _of_several_sources(runs, law), of_network), law)


def _doubted(
    ground: Ground, runs: Sequence[Validated], doubtful: Sequence[Validated], law: ErrorLaw, beyond: tuple[str, ...]
) -> Iterator[ErrorBand]:
    """For each property that too few runs have, the band of the runs with badly known inputs that have it, if any.

    The current fit has not seen these runs, so that their errors in it are used.
    """
    for name in _rarely_known(ground, runs, law):
        doubts = _like(ground, doubtful, (name,))
        if doubts:
            sizes = [error_size(run.error_fraction) for run in doubts]
            fraction = math.expm1(conformal_quantile(sizes) or max(sizes))
            in_common = f"{getattr(ground, name)}, inputs known badly"
            yield ErrorBand(fraction, runs=len(doubts), alike=in_common, beyond=beyond)


def alike(ground: Ground, runs: Sequence[Validated] | None = None, law: ErrorLaw = TIME_LAW) -> Sequence[Validated]:
    """The runs of the nearest class that has enough of them for an error band."""
    nearest = _nearest_class(ground, _by_confidence(runs, law)[0], law.classes, partial(_most_of_runs, law))
    return nearest.runs if nearest else ()


def holds(band: ErrorBand, run: Validated) -> bool:
    """Whether the error of a run, in the fit that left its source out, lies in a band."""
    return run.size_without_source <= math.log(1 + band.error_fraction)


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


def _by_confidence(runs: Sequence[Validated] | None, law: ErrorLaw) -> tuple[list[Validated], list[Validated]]:
    """The runs with an error of the law's quantity: those with well-known inputs, and those with badly known inputs."""
    runs = validated() if runs is None else runs
    doubtful = [run for run in runs if run.quantity == law.quantity and run.confidence == "low"]
    return well_known(runs, law.quantity), doubtful


def _nearest(ground: Ground, runs: Sequence[Validated], law: ErrorLaw) -> _Class | None:
    """The nearest class with enough runs, for a configuration whose kin was validated; None if there is none."""
    return _nearest_class(ground, _of_several_sources(runs, law) or runs, law.classes, partial(_most_of_runs, law))


def _nearest_of_new_kin(ground: Ground, runs: Sequence[Validated], law: ErrorLaw) -> _Class | None:
    """The nearest class for a configuration whose kin has no run, from the errors of other kin when each was left out.

    Its size of error is at least that of runs with the same software and, for the step's time, that of each other kin.
    Errors of a kin that was left out already contain its being new; as `error_band` widens by that, it is divided out here.
    """
    left_out = _nearest_class(ground, runs, law.of_new_kin, partial(_most_of_kin, law))
    nearest = left_out or _nearest_class(ground, runs, law.of_new_kin, partial(_most_of_runs, law))
    if nearest is None:
        return None
    several = _of_several_sources(runs, law)
    same_software = _most_of_runs(law, _like(ground, several, (*nearest.names, "software"))) or 0.0
    least = _widest_of_kin(_like(ground, several, nearest.names), law) if law.least_of_few else 0.0
    size = nearest.size / WIDENED if left_out else nearest.size
    return nearest._replace(size=max(size, same_software / WIDENED, least))


def _widest_of_kin(like: Sequence[Validated], law: ErrorLaw) -> float:
    """The largest size of error among all kin (accelerators, for the step's time) with enough runs; 0.0 if none has."""
    return max((_most_of_runs(law, runs) or 0.0 for runs in _by_kin(like, law).values()), default=0.0)


def _nearest_class(
    ground: Ground, runs: Sequence[Validated], classes: Sequence[tuple[str, ...]], most: Most
) -> _Class | None:
    """The nearest class of a configuration that has enough runs; None if none has.

    Args:
        ground: the properties of the configuration.
        runs: the runs to choose from.
        classes: the properties that each class shares, the nearest class first.
        most: gives the size of error below which most future runs of a class stay; None if its runs are too few.
    """
    for names in classes:
        like = _like(ground, runs, names)
        size = most(like)
        if size is not None:
            return _Class(names, like, size)
    return None


def _like(ground: Ground, runs: Sequence[Validated], names: Sequence[str]) -> list[Validated]:
    """The runs that share the properties `names` with a configuration."""
    properties = attrgetter(*names) if names else lambda _: None
    return [run for run in runs if properties(run.ground) == properties(ground)]


def _most_of_runs(law: ErrorLaw, like: Sequence[Validated]) -> float | None:
    """The size of error below which most future runs like these stay; None if these are too few."""
    return conformal_quantile([run.size_without_source for run in like]) if len(like) >= law.fewest else None


def _most_of_kin(law: ErrorLaw, like: Sequence[Validated]) -> float | None:
    """The size of error below which most runs of a new kin stay; None if there are too few kin."""
    return quantile_of_groups([[run.size_without_accelerator for run in runs] for runs in _by_kin(like, law).values()])


def _of_several_sources(runs: Sequence[Validated], law: ErrorLaw) -> list[Validated]:
    """The runs of each kin that has runs from several sources: without one source, the fit still knows the kin."""
    kin = _by_kin(runs, law).values()
    return [run for of_kin in kin if not _is_of_one_source(of_kin, law) for run in of_kin]


def _is_of_one_source(runs: Sequence[Validated], law: ErrorLaw) -> bool:
    """Whether these runs are all of one source, so that a fit without it has seen none; false if nothing is fitted."""
    return bool(law.one_source) and len({run.source for run in runs}) == 1


def _by_kin(runs: Sequence[Validated], law: ErrorLaw) -> dict[str, list[Validated]]:
    """The runs of each kin, by the value of the property `law.kin`."""
    by_kin: dict[str, list[Validated]] = {}
    for run in runs:
        by_kin.setdefault(getattr(run.ground, law.kin), []).append(run)
    return by_kin


def _beyond(ground: Ground, runs: Sequence[Validated], law: ErrorLaw) -> Iterator[str]:
    """In words, the properties of a configuration that no validated run has.

    Compared are the runs of its kin (on the same accelerator, for the step's time); if there are none, all runs.
    """
    like = _like(ground, runs, (law.kin,))
    if _is_of_one_source(like, law):
        yield law.one_source.format(getattr(ground, law.kin))
    for name, sentence in law.unknown.items():
        if not _like(ground, runs, (name,)):
            yield sentence.format(getattr(ground, name) or f"this {name}")
    kin = [run.ground for run in like or runs]
    for name, noun in (("experts", "network"), ("precision", "precision"), ("software", "software")):
        value = getattr(ground, name)
        if name not in law.unknown and value and value not in {getattr(g, name) for g in kin}:
            yield f"no {noun} like this one ({value})"
    for name in ("number_of_accelerators", "number_of_parameters", "context"):
        most = max((getattr(g, name) for g in kin), default=0.0)
        if getattr(ground, name) > most:
            yield f"{name} {getattr(ground, name):,.0f}, validated up to {most:,.0f}"
