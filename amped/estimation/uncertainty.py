"""How far an estimate may be off: the errors of validated runs of the nearest class, and where an estimate leaves them.

The errors come from `validation_residuals.csv`, which `amped validate --residuals` writes: nothing is estimated again. The
band is that of split conformal prediction: of n errors in order of size, the one that holds 80 % of runs to come if they
are like those, which is the ceil(0.8 (n + 1))-th. A class with too few runs for that gives way to the next wider one.
The band is wider for an accelerator without runs, and for what no run has.
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
# What each thing that no validated run has widens the band by. Leaving each source out in turn, 0.8 of its runs then lie
# in the band that the others say.
WIDENED = 1.1
DENSE, MIXTURE = "dense", "mixture of experts"
# Classes from the nearest to the widest: what runs of one have in common.
NEAREST = (
    ("accelerator", "software", "experts", "scale"), ("accelerator", "software", "experts"), ("accelerator", "software"),
    ("accelerator", "experts", "scale"), ("accelerator", "experts"), ("accelerator",),
    ("generation", "software", "experts"), ("generation", "experts"), ("generation",), ("experts",), (),
)  # fmt: skip


@dataclass(frozen=True)
class Ground:
    """What errors depend on, of one configuration.

    Attributes:
        accelerator, software: rows of their tables, empty where there is none; `generation` the accelerator's.
        precision: of matrix products.
        number_of_nodes: servers; `number_of_accelerators` on all of them.
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
        """Dense or a mixture of experts."""
        return MIXTURE if self.number_of_experts > 1 else DENSE

    @property
    def scale(self) -> str:
        """One node, several, or very many accelerators."""
        if self.number_of_accelerators > LARGE:
            return f"over {LARGE} accelerators"
        return "one node" if self.number_of_nodes <= 1 else "several nodes"


@dataclass(frozen=True)
class Validated:
    """One validated run: its error of the step's time, predicted / measured - 1, and whether its inputs are known."""

    id: str
    confidence: str
    error_fraction: float
    ground: Ground


@dataclass(frozen=True)
class ErrorBand:
    """How far a step's time may be off.

    Attributes:
        error_fraction: the time is between step_time / (1 + e) and step_time * (1 + e) in four runs of five.
        runs: how many validated runs say so; `alike` what they have in common, from the nearest class with enough.
        beyond: where the configuration lies beyond what was validated.
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
    """The band of one configuration, from the runs whose inputs are known.

    It never shrinks with ignorance: on an accelerator without runs it is no narrower than on any that has some, and each
    thing that no validated run has widens it.
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
    """The widest band, as a logarithm, of any accelerator with runs enough to have one of its own."""
    by_name: dict[str, list[float]] = {}
    for run in known:
        by_name.setdefault(run.ground.accelerator, []).append(abs(math.log(1 + run.error_fraction)))
    return max((conformal_quantile(sizes) or 0.0 for sizes in by_name.values()), default=0.0)


def conformal_quantile(sizes: Sequence[float], covered: float = COVERED) -> float | None:
    """The size that holds a share of what is to come; None where there are too few to say. Source: the head of this file."""
    place = math.ceil(covered * (len(sizes) + 1))
    return sorted(sizes)[place - 1] if place <= len(sizes) else None


def _beyond(ground: Ground, known: Sequence[Validated]) -> Iterator[str]:
    """What of a configuration no validated run has, of its accelerator or else of its generation or of any."""
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
