"""How far an estimate may be off: the errors of validated runs like it, and in which respects it is unlike all of them.

The errors come from `validation_residuals.csv`, which `amped validate --residuals` writes; nothing is estimated again.
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
from dataclasses import asdict, dataclass, fields
from functools import lru_cache
from typing import Any

from amped.base.files import shipped_text

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

    @property
    def experts(self) -> str:
        """Whether the network is dense or a mixture of experts, in words."""
        return MIXTURE if self.number_of_experts > 1 else DENSE

    @property
    def scale(self) -> str:
        """One node, several nodes, or very many accelerators, in words."""
        if self.number_of_accelerators > LARGE:
            return f"over {LARGE} accelerators"
        return "one node" if self.number_of_nodes <= 1 else "several nodes"


@dataclass(frozen=True)
class Validated:
    """One validated run: its error of the step's time (predicted / measured - 1) and how well its inputs are known."""

    id: str
    confidence: str
    error_fraction: float
    ground: Ground


@dataclass(frozen=True)
class ErrorBand:
    """How far a step's time may be off.

    Attributes:
        error_fraction: e; in four runs of five, the time is between step_time / (1 + e) and step_time * (1 + e).
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
    return Validated(line["id"], line["confidence"], float(line["error_fraction"]), Ground(**values))  # type: ignore[arg-type]


def as_file(runs: Sequence[Validated]) -> str:
    """The runs as the file that `validated` reads."""
    stream = io.StringIO()
    names = ["id", "confidence", "error_fraction", *(f.name for f in fields(Ground))]
    writer = csv.DictWriter(stream, names, lineterminator="\n")
    writer.writeheader()
    for run in runs:
        writer.writerow({"id": run.id, "confidence": run.confidence} | _numbers(run))
    return stream.getvalue()


def _numbers(run: Validated) -> dict[str, Any]:
    told: dict[str, Any] = {"error_fraction": f"{run.error_fraction:.5f}"}
    return told | {name: f"{v:.12g}" if isinstance(v, float) else v for name, v in asdict(run.ground).items()}


def error_band(ground: Ground, runs: Sequence[Validated] | None = None) -> ErrorBand:
    """The error band of one configuration, from the runs whose inputs are known well.

    Less knowledge never makes it narrower: for an accelerator without runs it is at least as wide as for any other, and
    each property that no validated run has widens it.
    """
    known = [run for run in (validated() if runs is None else runs) if run.confidence != "low"]
    beyond = tuple(_beyond(ground, known))
    for names in NEAREST:
        like = [run for run in known if all(getattr(run.ground, n) == getattr(ground, n) for n in names)]
        size = conformal_quantile([abs(math.log(1 + run.error_fraction)) for run in like])
        if size is not None:
            alike = ", ".join(getattr(ground, n) for n in names if getattr(ground, n)) or "all of them"
            least = 0.0 if "accelerator" in names else _widest_of_accelerators(known)
            return ErrorBand(math.expm1(max(size, least) * WIDENED ** len(beyond)), len(like), alike, beyond)
    return ErrorBand(math.nan, 0, "no validated run", beyond)


def _widest_of_accelerators(known: Sequence[Validated]) -> float:
    """The widest band (as a logarithm) of all accelerators that have enough runs for a band of their own."""
    by_name: dict[str, list[float]] = {}
    for run in known:
        by_name.setdefault(run.ground.accelerator, []).append(abs(math.log(1 + run.error_fraction)))
    return max((conformal_quantile(sizes) or 0.0 for sizes in by_name.values()), default=0.0)


def conformal_quantile(sizes: Sequence[float], covered: float = COVERED) -> float | None:
    """The size that is larger than a share of all future errors; None if there are too few.

    Source: see the module's head.
    """
    place = math.ceil(covered * (len(sizes) + 1))
    return sorted(sizes)[place - 1] if place <= len(sizes) else None


def _beyond(ground: Ground, known: Sequence[Validated]) -> Iterator[str]:
    """The properties that no validated run has, on the same accelerator, else of its generation, else at all."""
    kin = [r.ground for r in known if r.ground.accelerator == ground.accelerator]
    if not kin:
        yield f"no run on {ground.accelerator or 'this accelerator'} was validated"
        kin = [r.ground for r in known if r.ground.generation == ground.generation] or [r.ground for r in known]
    for name, told in (("experts", "network"), ("precision", "precision"), ("software", "software")):
        own = getattr(ground, name)
        if own and own not in {getattr(g, name) for g in kin}:
            yield f"no {told} like this one ({own})"
    for name in ("number_of_accelerators", "number_of_parameters", "context"):
        most = max((getattr(g, name) for g in kin), default=0.0)
        if getattr(ground, name) > most:
            yield f"{name} {getattr(ground, name):,.0f}, validated up to {most:,.0f}"
