"""How far an estimate may be off: the errors of validated runs like it, and in which respects it is unlike all of them.

The errors come from `validation_residuals.csv`, which `amped validate --residuals` writes; nothing is estimated again.
They are those of the step's time and of memory; a record for each, an `ErrorLaw`, says what its band comes from.
The error of a step is the one without its source: the numbers that are fitted to steps are those of the fit that left
the source out, because nobody's own run was in the fit. No number of memory is fitted.
The band is that of split conformal prediction: of n errors in ascending order, the ceil(0.8 (n + 1))-th. It holds 80 %
of future runs if these are like the validated ones. If a class has too few runs, the next wider class is used. The band
is wider for an accelerator without runs, and for each property that no run has.
Source: Vovk, Gammerman and Shafer, Algorithmic Learning in a Random World (2005), section 2.2; Lei et al., J. Am. Stat.
Assoc. 113 (2018), section 2 (split conformal).
"""

from __future__ import annotations

import csv
import io
import math
from collections.abc import Iterator, Sequence
from dataclasses import asdict, fields
from functools import cached_property, lru_cache
from operator import attrgetter
from typing import Any

from amped.base.files import shipped_text
from amped.base.record import dataclass

FILE = "validation_residuals.csv"
COVERED = 0.8
LARGE = 128
# The factor by which each property that no validated run has widens the band. With it, if each source is left out in
# turn, 0.8 of its runs lie within the band that the other sources give.
WIDENED = 1.1
DENSE, MIXTURE = "dense", "mixture of experts"
# Classes of runs, from the nearest to the widest, each by the properties that its runs share.
NEAREST = (
    ("accelerator", "software", "experts", "scale"), ("accelerator", "software", "experts"), ("accelerator", "software"),
    ("accelerator", "experts", "scale"), ("accelerator", "experts"), ("accelerator",),
    ("generation", "software", "experts"), ("generation", "experts"), ("generation",), ("experts",), (),
)  # fmt: skip


@dataclass(frozen=True)
class Ground:
    """The properties of a configuration that its error depends on.

    Attributes:
        accelerator, software: the names of the rows, empty if there is none.
        generation: the generation of the accelerator.
        precision: the precision of matrix products.
        number_of_nodes: the number of servers.
        number_of_accelerators: the number of accelerators on all servers.
    """

    accelerator: str
    generation: str
    software: str
    precision: str
    number_of_experts: float
    number_of_nodes: float
    number_of_accelerators: float
    number_of_parameters: float
    context: float

    @cached_property
    def experts(self) -> str:
        """Whether the network is dense or a mixture of experts, in words."""
        return MIXTURE if self.number_of_experts > 1 else DENSE

    @cached_property
    def scale(self) -> str:
        """One node, several nodes, or very many accelerators, in words."""
        if self.number_of_accelerators > LARGE:
            return f"over {LARGE} accelerators"
        return "one node" if self.number_of_nodes <= 1 else "several nodes"


@dataclass(frozen=True)
class ErrorLaw:
    """What the error band of one quantity comes from.

    Attributes:
        quantity: the quantity whose errors are compared.
        classes: classes of runs, from the nearest to the widest, each by the properties that its runs share.
        kin: the property that the error depends on most.
        kin_of_kin: the property of the next kin, where no run has the first one; empty if all runs are the next kin.
        unknown: what is said where no run has the kin.
        fewest: the fewest runs that a class needs; the quantile needs four in any case.
        least_of_unknown: whether the band of an unknown kin is no narrower than that of any known one.
    """

    quantity: str
    classes: tuple[tuple[str, ...], ...]
    kin: str
    kin_of_kin: str
    unknown: str
    fewest: int = 0
    least_of_unknown: bool = False


TIME_LAW = ErrorLaw(
    "step_time", NEAREST, "accelerator", "generation", "no run on {} was validated", least_of_unknown=True
)
# What is held in memory depends on what the software keeps, and hardly on the accelerator.
MEMORY_LAW = ErrorLaw(
    "memory_per_accelerator_bytes", (("software",), ()), "software", "", "no memory was read with {}", fewest=5
)
ERROR_LAWS = (TIME_LAW, MEMORY_LAW)


@dataclass(frozen=True)
class Validated:
    """One validated run.

    Attributes:
        confidence: how well its inputs are known.
        error_fraction: the error of the quantity, predicted / measured - 1.
        without_source: the same error where its source was left out of the fit; None if that moves nothing.
    """

    id: str
    confidence: str
    error_fraction: float
    ground: Ground
    quantity: str = TIME_LAW.quantity
    without_source: float | None = None


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


@lru_cache(maxsize=1)
def validated() -> tuple[Validated, ...]:
    """The validated runs that come with amped."""
    return tuple(_run(line) for line in csv.DictReader(io.StringIO(shipped_text("lookup_tables", FILE))))


def _run(line: dict[str, str]) -> Validated:
    values = {f.name: line[f.name] if f.type == "str" else float(line[f.name]) for f in fields(Ground)}
    error, ground = float(line["error_fraction"]), Ground(**values)  # type: ignore[arg-type]
    without = float(line["without_source"]) if line["without_source"] else None
    return Validated(line["id"], line["confidence"], error, ground, line["quantity"], without)


def as_file(runs: Sequence[Validated]) -> str:
    """The runs as the file that `validated` reads."""
    stream = io.StringIO()
    names = ["id", "quantity", "confidence", "error_fraction", "without_source", *(f.name for f in fields(Ground))]
    writer = csv.DictWriter(stream, names, lineterminator="\n")
    writer.writeheader()
    for run in runs:
        writer.writerow({"id": run.id, "quantity": run.quantity, "confidence": run.confidence} | _numbers(run))
    return stream.getvalue()


def _numbers(run: Validated) -> dict[str, Any]:
    without = "" if run.without_source is None else f"{run.without_source:.5f}"
    told: dict[str, Any] = {"error_fraction": f"{run.error_fraction:.5f}", "without_source": without}
    return told | {name: f"{v:.12g}" if isinstance(v, float) else v for name, v in asdict(run.ground).items()}


def error_band(ground: Ground, runs: Sequence[Validated] | None = None, law: ErrorLaw = TIME_LAW) -> ErrorBand:
    """The error band of one configuration, from the runs whose inputs are known well.

    Less knowledge never makes the band of the step's time narrower: for an accelerator without runs it is at least as wide
    as for any other. Each property that no validated run has widens a band.
    """
    known = _known(runs, law)
    beyond = tuple(_beyond(ground, known, law))
    names, like = alike(ground, runs, law)
    size = _size_of_class(like, law)
    if size is None:
        return ErrorBand(math.nan, 0, "no validated run", beyond)
    told = ", ".join(getattr(ground, n) for n in names if getattr(ground, n)) or "all of them"
    least = _widest_of_kin(known, law) if law.least_of_unknown and law.kin not in names else 0.0
    return ErrorBand(math.expm1(max(size, least) * WIDENED ** len(beyond)), len(like), told, beyond)


def alike(
    ground: Ground, runs: Sequence[Validated] | None = None, law: ErrorLaw = TIME_LAW
) -> tuple[tuple[str, ...], list[Validated]]:
    """The nearest class of runs that has enough of them for an error band: what they share, and the runs; else no runs."""
    known = _known(runs, law)
    for names in law.classes:
        properties = attrgetter(*names) if names else lambda _: None
        own = properties(ground)
        like = [run for run in known if properties(run.ground) == own]
        if _size_of_class(like, law) is not None:
            return names, like
    return (), []


def _known(runs: Sequence[Validated] | None, law: ErrorLaw) -> list[Validated]:
    """The runs whose inputs are known well."""
    every = validated() if runs is None else runs
    return [run for run in every if run.confidence != "low" and run.quantity == law.quantity]


def _size_of_class(like: Sequence[Validated], law: ErrorLaw) -> float | None:
    """The size of error that most runs of a class keep; None if they are too few."""
    return conformal_quantile([size_without_source(run) for run in like]) if len(like) >= law.fewest else None


def error_size(error_fraction: float) -> float:
    """The size of an error as a logarithm, so that half and twice are as far off."""
    return abs(math.log(1 + error_fraction))


def size_without_source(run: Validated) -> float:
    """The size of a run's error where its source was left out of the fit."""
    return error_size(run.error_fraction if run.without_source is None else run.without_source)


def holds(band: ErrorBand, run: Validated) -> bool:
    """Whether the error of a run, without its source, lies in a band."""
    return size_without_source(run) <= math.log(1 + band.error_fraction)


def _widest_of_kin(known: Sequence[Validated], law: ErrorLaw) -> float:
    """The widest band (as a logarithm) of all kin, as accelerators, that have enough runs for a band of their own."""
    by_name: dict[str, list[float]] = {}
    for run in known:
        by_name.setdefault(getattr(run.ground, law.kin), []).append(size_without_source(run))
    return max((conformal_quantile(sizes) or 0.0 for sizes in by_name.values()), default=0.0)


def conformal_quantile(sizes: Sequence[float], covered: float = COVERED) -> float | None:
    """The size that is larger than a share of all future errors; None if there are too few.

    Source: see the module's head.
    """
    place = math.ceil(covered * (len(sizes) + 1))
    return sorted(sizes)[place - 1] if place <= len(sizes) else None


def _beyond(ground: Ground, known: Sequence[Validated], law: ErrorLaw) -> Iterator[str]:
    """The properties that no validated run has, among the kin (as: on the same accelerator), else the next kin, else all."""
    own = getattr(ground, law.kin)
    kin = [r.ground for r in known if getattr(r.ground, law.kin) == own]
    if not kin:
        yield law.unknown.format(own or f"this {law.kin}")
        kin = _next_kin(ground, known, law)
    for name, told in (("experts", "network"), ("precision", "precision"), ("software", "software")):
        own = getattr(ground, name)
        if name != law.kin and own and own not in {getattr(g, name) for g in kin}:
            yield f"no {told} like this one ({own})"
    for name in ("number_of_accelerators", "number_of_parameters", "context"):
        most = max((getattr(g, name) for g in kin), default=0.0)
        if getattr(ground, name) > most:
            yield f"{name} {getattr(ground, name):,.0f}, validated up to {most:,.0f}"


def _next_kin(ground: Ground, known: Sequence[Validated], law: ErrorLaw) -> list[Ground]:
    """The runs that a configuration is held against if no run is its kin: those of the next kin, else all."""
    every = [r.ground for r in known]
    name = law.kin_of_kin
    return [g for g in every if name and getattr(g, name) == getattr(ground, name)] or every
