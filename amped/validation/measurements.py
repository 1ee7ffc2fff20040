"""Measurements as questions to amped: each row of a table becomes a config, and says what was measured there.

A config goes through the ordinary door (`read_scenario`). A row tells what it assumed, what amped has no parameter for, what
nobody understood, and, where it cannot be modeled, why.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from amped.base.errors import AmpedError, Problem, one_line
from amped.estimation.estimation import Estimation
from amped.tables.table_files import ACCELERATORS, SOFTWARE, SYSTEMS
from amped.tables.tables import Tables, user_tables
from amped.theory.catalogue import Catalogue, catalogue
from amped.theory.quantity import ACCELERATOR, CATEGORIES, MAPPING, SYSTEM
from amped.validation.columns import NEEDED, TableRow, read_table
from amped.validation.notes import Reading, read_notes
from amped.validation.recipes import BESIDE, OFFERED, OFFLOAD, OPEN, tuned
from amped.validation.translated import Translation
from amped.validation.translation import translated

TIME, THROUGHPUT, FLOP_RATE = "step_time", "tokens_per_second_per_accelerator", "model_flop_rate_per_accelerator"
MEMORY = "memory_per_accelerator_bytes"
# Measured columns by what they measure, the first that a row has is compared; and the size of their units.
COMPARED = {
    TIME: ("measured_step_time_s", 1.0),
    THROUGHPUT: ("measured_tokens_per_s_per_gpu", 1.0),
    FLOP_RATE: ("measured_model_tflops_per_gpu", 1e12),
}
PEAK_MEMORY = ("measured_peak_memory_GB", 1e9)
# What only the last pipeline stage needs, where memory was logged there.
LAST_STAGE = ("layer_working_bytes", "gathered_weight_bytes", "logits_gradient_bytes")
HELD_BY_STAGES = ("stage_states", "stage_activations")
LAYER, STEP = "layer", "training_step"


@dataclass(frozen=True)
class Measurement:
    """One row of a table: the config it stands for, and what was measured.

    Attributes:
        row: as it was read; `id`, `source`, `confidence` its columns of that name.
        kind: "training_step" or "layer" (forward and backward of layers alone).
        config: as a config file has it; None where the row cannot be modeled, with the reason.
        measured: quantities by canonical name in SI units; `parts` those beside (passes of a layer).
        memory_is: "allocated", "reserved" or unsaid; `memory_of` the stage that was logged, else the fullest.
        out_of_memory: whether the run ended for want of memory.
        assumed: what the row does not say, by parameter, and whose default it took.
        software: what the software does, for which amped has no parameter.
        missing: values of parameters that this amped does not have.
        expected: what the row says of quantities that follow from the config, such as the number of parameters.
        unread: text and columns that nobody understood.
        reason: why the row cannot be modeled.
    """

    row: TableRow
    kind: str
    config: Mapping[str, Any] | None
    measured: Mapping[str, float]
    parts: Mapping[str, float]
    memory_is: str
    memory_of: str
    out_of_memory: bool
    assumed: Mapping[str, str] = field(default_factory=dict)
    software: Mapping[str, Any] = field(default_factory=dict)
    missing: Mapping[str, Any] = field(default_factory=dict)
    expected: Mapping[str, float] = field(default_factory=dict)
    unread: tuple[str, ...] = ()
    reason: str = ""

    @property
    def id(self) -> str:
        """The row's name."""
        return self.row.text("id")

    @property
    def source(self) -> str:
        """Who measured."""
        return self.row.text("source")

    @property
    def confidence(self) -> str:
        """How far the inputs are known: high, medium or low; high where the table does not say."""
        return self.row.text("confidence") or "high"

    def predicted(self, estimation: Estimation, name: str) -> float:
        """What an estimate of this row's config says of a measured quantity."""
        if name == MEMORY and self.memory_of == "last stage":
            held = sum(float(estimation.results.records(part)[-1].bytes) for part in HELD_BY_STAGES)
            return held + sum(estimation[part] for part in LAST_STAGE)
        if name == MEMORY and self.memory_is == "reserved":
            return estimation["allocator_reserved_bytes"]
        if name == "forward_time":
            return estimation["compute_forward_time"] + _forward_communication(estimation)
        if name == "backward_time":
            return estimation[TIME] - self.predicted(estimation, "forward_time")
        return estimation[name]


def _forward_communication(e: Estimation) -> float:
    """Tensor-parallel communication of all layers forward, none of which hides."""
    return e["tensor_forward_communication_time_per_layer"] * e["bottleneck_stage_layer_passes"]


def read_measurements(table: str | Path | None = None, lookup_tables: str | Path | None = None) -> list[Measurement]:
    """The measurements of a table, of the one that comes with amped unless another is named.

    Args:
        table: a file of comma-separated values with the columns of `columns.COLUMNS`.
        lookup_tables: a folder of lookup tables to layer over the shipped ones.

    Raises:
        AmpedError: for a table that cannot be read. A row that cannot be modeled is returned with its reason.
    """
    tables = user_tables(lookup_tables)
    return [measurement(row, tables, catalogue(), lookup_tables) for row in read_table(table)]


def measurement(
    row: TableRow, tables: Tables, known: Catalogue, lookup_tables: str | Path | None = None
) -> Measurement:
    """One row as a measurement."""
    reading = read_notes(row.text("notes"), row.text("audit"), known)
    kind = row.text("row_kind") or reading.measured.get("row_kind", STEP)
    own = _measured(row, reading)
    try:
        blank = [Problem(f"'{name}' is blank", f"line {row.line}") for name in NEEDED if name not in row.texts]
        if row.problems or blank:
            raise AmpedError([*row.problems, *blank])
        if "adapters" in reading.software:
            raise AmpedError(Problem("trains adapters beside frozen weights, for which amped has no formula"))
        translation = translated(row, reading, kind == LAYER, tables)
    except AmpedError as error:
        unread, reason = _unread(row, reading), one_line(error)
        return Measurement(row, kind, None, **own, software=reading.software, unread=unread, reason=reason)
    config = _config(row, translation, known)
    tunable = kind == STEP and not own["out_of_memory"]
    open_to = {name for name in OPEN if name in translation.assumed and tunable}
    open_to -= (set(OFFERED) - set(translation.offers)) | translation.settled
    open_to |= {name for name, other in BESIDE.items() if other in open_to and name in translation.offers}
    if translation.values.get("pipeline_parallel_degree", 1) > 1:
        open_to.discard(OFFLOAD)  # Megatron-Core offloads activations of unpipelined layers only
    chosen, why = tuned(config, translation.values, open_to, lookup_tables)
    for name, value in chosen.items():
        translation.assume(name, value, why)
        config[MAPPING]["parameters"][name] = {"value": value}
    missing = {name: value for name, value in translation.values.items() if name not in known}
    return Measurement(
        row, kind, config, **own, assumed=translation.assumed, software=reading.software,
        missing=missing, expected=translation.expected, unread=_unread(row, reading),
    )  # fmt: skip


def _measured(row: TableRow, reading: Reading) -> dict[str, Any]:
    found = {name: row.numbers[c] * size for name, (c, size) in COMPARED.items() if row.numbers.get(c)}
    measured = dict(list(found.items())[:1])
    column, size = PEAK_MEMORY
    if row.numbers.get(column):
        measured[MEMORY] = row.numbers[column] * size
    said = reading.measured
    parts = {name: said[name] for name in ("forward_time", "backward_time") if name in said}
    return {
        "measured": measured, "parts": parts, "memory_is": said.get("memory_is", ""),
        "memory_of": said.get("memory_of", ""), "out_of_memory": bool(said.get("out_of_memory")),
    }  # fmt: skip


def _unread(row: TableRow, reading: Reading) -> tuple[str, ...]:
    return (*reading.unread, *(f"column '{name}'" for name in row.others))


def _config(row: TableRow, translation: Translation, known: Catalogue) -> dict[str, Any]:
    """The config, as a file would have it."""
    config: dict[str, Any] = {category: {"parameters": {}} for category in CATEGORIES}
    for name, value in translation.values.items():
        if name in known:
            config[known[name].category or MAPPING]["parameters"][name] = {"value": value}
    config[ACCELERATOR]["lookup_config"] = {
        "lookup_table_name": ACCELERATORS, "lookup_table_row": translation.accelerator
    }  # fmt: skip
    config[MAPPING]["lookup_config"] = {"lookup_table_name": SOFTWARE, "lookup_table_row": translation.software}
    if translation.system:
        config[SYSTEM]["lookup_config"] = {"lookup_table_name": SYSTEMS, "lookup_table_row": translation.system}
    names = [row.text(column) for column in ("id", "source", "model_name") if row.text(column)]
    config["description"] = f"{', '.join(names)} on {row.text('gpus')} x {row.text('accelerator')}"
    return config
