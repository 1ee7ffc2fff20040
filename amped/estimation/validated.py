"""The errors of validated runs, with what they depend on: what amped knows of how good it is.

They are in `validation_residuals.csv`, which `amped validate --residuals` writes; nothing is estimated again.
"""

from __future__ import annotations

import csv
import enum
import io
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, fields
from functools import cached_property, lru_cache
from typing import Any

from amped.base.files import shipped_text
from amped.base.record import dataclass
from amped.tables.recipes import is_recipe
from amped.tables.tables import Row
from amped.theory.language.quantity import ACCELERATOR, MAPPING
from amped.theory.nouns.parallelisms import WRITTEN

FILE = "validation_residuals.csv"
STEP_TIME = "step_time"
DENSE, MIXTURE = "dense", "mixture of experts"
# The numbers of a configuration that its error depends on.
SIZES = ("number_of_experts", "number_of_nodes", "number_of_accelerators", "number_of_parameters", "context")
# The utilization by which runs are compared: whatever an attention kernel leaves out, no score counts that nobody needs.
CAUSAL_UTILIZATION = "model_flops_utilization_counting_causal_scores"
# What a run has in words; and its errors in fits that have not seen something.
TEXTS = ("id", "group", "source", "quantity", "confidence")


class Left(enum.StrEnum):
    """What a fit leaves out together, because it would be new: the source of a run, with its accelerator, its stack, or both."""

    SOURCE = "source"
    ACCELERATOR = "accelerator"
    STACK = "stack"
    ALL = "all"

    @property
    def column(self) -> str:
        """The name of the error in a fit that leaves this out."""
        return f"without_{self.value}"

    def names(self, source: str, accelerator: str, stack: str) -> tuple[str, ...]:
        """The names of what is left out with a run: its source, and perhaps its accelerator and its software."""
        return {
            Left.SOURCE: (source,), Left.ACCELERATOR: (source, accelerator), Left.STACK: (source, stack),
            Left.ALL: (source, accelerator, stack),
        }[self]  # fmt: skip


ERRORS = ("error_fraction", *(left.column for left in Left))


@dataclass(frozen=True)
class Ground:
    """The properties of a configuration that its error depends on.

    Attributes:
        accelerator, software: the names of the rows, empty if there is none.
        generation: the generation of the accelerator.
        precision: the precision of matrix products.
        number_of_nodes: the number of servers.
        number_of_accelerators: the number of accelerators on all servers.
        mapping: the degrees of parallelism, as `mapping_of` says them; empty if they are not known.
        mixer: what the network has beside or instead of plain attention, in words (`mixer_of`); empty if nothing.
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
    mapping: str = ""
    mixer: str = ""

    @cached_property
    def experts(self) -> str:
        """Whether the network is dense or a mixture of experts, in words."""
        return MIXTURE if self.number_of_experts > 1 else DENSE


@dataclass(frozen=True)
class Validated:
    """One validated run.

    Attributes:
        source: who published it.
        group: the name that all repeats of one configuration share; empty if it has none.
        confidence: how well its inputs are known.
        error_fraction: the error of the quantity, predicted / measured - 1.
        without_source: the same error where all runs of its source were left out of the fit; None if that moves nothing.
        without_accelerator, without_stack, without_all: the same where all runs of its source were left out, and with them all
            runs on its accelerator, all runs with its software, and both.
        utilization: the measured share of the peak that FLOPs of the model take, where causal scores count; zero where no
            time was measured.
    """

    id: str
    source: str
    confidence: str
    error_fraction: float
    ground: Ground
    quantity: str = STEP_TIME
    group: str = ""
    without_source: float | None = None
    without_accelerator: float | None = None
    without_stack: float | None = None
    without_all: float | None = None
    utilization: float = 0.0

    def error(self, left: Left) -> float:
        """The error in the fit that left this out."""
        error: float | None = getattr(self, left.column)
        return self.error_fraction if error is None else error

    def size(self, left: Left) -> float:
        """The size of the error in the fit that left this out."""
        return error_size(self.error(left))


def _plain(software: Row) -> str:
    """The name of a row of software; of software as recipes run it, the row that it extends."""
    return software.ancestors[0] if is_recipe(software) and software.ancestors else software.name


def ground_of(rows: Mapping[str, Row], precision: str, number: Callable[[str], float], mixer: str = "") -> Ground:
    """The properties of a configuration that its error depends on.

    Args:
        rows: the row of each category.
        precision: the precision of matrix products.
        number: gives the value of a quantity by its name.
        mixer: as in `Ground`.
    """
    accelerator, software = rows.get(ACCELERATOR), rows.get(MAPPING)
    architecture = str(accelerator.columns.get("architecture") or "") if accelerator else ""
    return Ground(
        accelerator=accelerator.name if accelerator else "", generation=architecture.partition(" ")[0],
        software=_plain(software) if software else "", precision="16 bit" if precision in ("fp16", "bf16") else precision,
        number_of_experts=number("number_of_experts"), number_of_nodes=number("number_of_nodes"),
        number_of_accelerators=number("number_of_accelerators"), number_of_parameters=number("number_of_parameters"), context=number("context"), mixer=mixer,
    )  # fmt: skip


def mixer_of(choices: Mapping[str, str], given: Mapping[str, Any]) -> str:
    """What a network has beside decoder layers of plain attention, in words, the rarest first; empty if it has nothing else.

    Args:
        choices: the value of each choice.
        given: the values that are given.
    """
    if choices.get("tower", "none") != "none":
        return "an encoder of images or of sound in front"
    if float(given.get("number_of_stacks") or 1) > 1 or float(given.get("cross_attention_layers") or 0) > 0:
        return "an encoder and a decoder"
    kind = choices.get("linear_attention_kind", "none")
    return kind.replace("_", " ") if kind != "none" else "indexed keys" if "indexer_heads" in given else ""


def mapping_of(number: Callable[[str], float]) -> str:
    """The degrees of parallelism as text; `number` gives the value of a quantity by its name."""
    return " ".join(f"{kind} {number(f'{kind}_parallel_degree'):g}" for kind in WRITTEN)


def ground_from(line: Mapping[str, Any]) -> Ground:
    """The properties in a line of a table; lines from older versions of amped have no mapping."""
    return Ground(*[read(line[name]) for name, read in READING.items() if name in line])


# How each property of a configuration is read from a table.
READING: Mapping[str, Callable[[Any], Any]] = {f.name: str if f.type == "str" else float for f in fields(Ground)}


def best_utilization(ground: Ground) -> tuple[float, str]:
    """The highest measured utilization of runs in the same precision, and the accelerator in words.

    The runs are those with well-known inputs on the same accelerator or, if there are none, on any. FLOPs count causal
    scores. The utilization is infinite if there is no run.
    """
    same_precision = [r for r in well_known(validated()) if r.ground.precision == ground.precision]
    on_accelerator = [r for r in same_precision if r.ground.accelerator == ground.accelerator]
    where = ground.accelerator if on_accelerator else "any accelerator"
    return max((r.utilization for r in on_accelerator or same_precision), default=math.inf), where


def well_known(runs: Sequence[Validated], quantity: str = STEP_TIME) -> list[Validated]:
    """The runs that have an error of `quantity` and whose inputs are known well."""
    return [run for run in runs if run.quantity == quantity and run.confidence != "low"]


def error_size(error_fraction: float) -> float:
    """The size of a relative error as a logarithm, so that half and twice the value have the same size."""
    return abs(math.log(1 + error_fraction))


@lru_cache(maxsize=1)
def validated() -> tuple[Validated, ...]:
    """The validated runs that come with amped."""
    head, *lines = csv.reader(io.StringIO(shipped_text("lookup_tables", FILE)))
    return tuple(_run(dict(zip(head, line, strict=True))) for line in lines)


def shipped_shifts() -> dict[Left, dict[str, float]]:
    """What predicted times are multiplied by in fits that leave something out, as in the errors that come with amped."""
    return {
        left: {
            run.id: (1 + error) / (1 + run.error_fraction)
            for run in validated()
            if (error := getattr(run, left.column)) is not None
        }
        for left in Left
    }


def _run(line: dict[str, str]) -> Validated:
    texts: dict[str, Any] = {name: line[name] for name in TEXTS}
    errors: dict[str, Any] = {name: float(line[name]) if line[name] else None for name in ERRORS}
    return Validated(ground=ground_from(line), utilization=float(line["utilization"] or 0.0), **texts, **errors)


def as_file(runs: Sequence[Validated]) -> str:
    """The runs as CSV, in the form that `validated` reads."""
    stream = io.StringIO()
    writer = csv.DictWriter(stream, [*TEXTS, *ERRORS, "utilization", *READING], lineterminator="\n")
    writer.writeheader()
    for run in runs:
        writer.writerow({name: getattr(run, name) for name in TEXTS} | _numbers(run))
    return stream.getvalue()


def _numbers(run: Validated) -> dict[str, Any]:
    errors = {name: getattr(run, name) for name in ERRORS}
    return {
        **{name: "" if error is None else f"{error:.5f}" for name, error in errors.items()},
        "utilization": f"{run.utilization:.4f}" if run.utilization else "",
        **{name: f"{v:.12g}" if isinstance(v, float) else v for name, v in asdict(run.ground).items()},
    }
