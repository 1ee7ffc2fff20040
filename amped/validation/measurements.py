"""Measurements as questions to amped: each row of a table is a config with what was measured for it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, NamedTuple

from amped.base.errors import AmpedError, one_line
from amped.configuring.scenario import Scenario, read_scenario
from amped.drafting.open_cells import AS_ESTIMATED, as_estimated, tuned
from amped.estimation.estimation import Estimation
from amped.tables.stacks import UNKNOWN_STACK
from amped.tables.table_files import SOFTWARE, LookupTables
from amped.tables.tables import Tables, user_tables
from amped.theory.language.quantity import GIVEN_NETWORK
from amped.validation.facts import ESSENTIAL, FACTS
from amped.validation.logged import read_runs
from amped.validation.table import MEASURED, PACES, STEP, Row

TIME, THROUGHPUT, FLOP_RATE, UTILIZATION = COMPARED = tuple(MEASURED[column][0] for column in PACES)
MEMORY = "memory_per_accelerator_bytes"
# The stage whose accelerator was read, where it was not the fullest.
STAGE_OF_RANK = {"first": 0, "last": -1}
HELD_BY_STAGES = ("stage_states", "stage_activations", "stage_working")
# What is in a reading of memory that is not that of the tensors.
READ = {
    "reserved": ("allocator_reserved_bytes",),
    "device": ("allocator_reserved_bytes", "reserved_memory_bytes"),
}
# What each row has to say, as nobody measures a run without it: in words, and the cells of which some say it.
SAID = {
    "which network ran (model; or layers, dimensionality and more)": ({"model"}, GIVEN_NETWORK),
    "on what (accelerator or system)": ({"accelerator"}, {"system"}),
    "on how many (gpus)": ({"number_of_accelerators"}, {"number_of_nodes"}, {"data_parallel_degree"}),
}


class Taken(NamedTuple):
    """A value that amped takes because the row leaves it open: the name of the parameter, the value, and the reason."""

    name: str
    value: object
    why: str

    @property
    def text(self) -> str:
        """The parameter and its value, as in `dropout = 0.1`."""
        return f"{self.name} = {f'{self.value:g}' if isinstance(self.value, float) else self.value}"

    def __str__(self) -> str:
        return f"{self.text} ({self.why})"


@dataclass(frozen=True)
class Measurement:
    """One row of a table: the config that it describes, and what was measured.

    Attributes:
        row: the row as it was read.
        settings: the config in the form of `--set`, with the values that amped takes for open parameters.
        assumed: the values that amped takes for open parameters.
        reason: why the row cannot be modeled; empty if it can.
    """

    row: Row
    settings: Mapping[str, Any]
    assumed: tuple[Taken, ...] = ()
    reason: str = ""

    @property
    def id(self) -> str:
        """The name of the row, or `line N` if it has none."""
        return self.row.texts.get("id", f"line {self.row.line}")

    @property
    def group(self) -> str:
        """The name that all repeats of one configuration share; by default the name of the row."""
        return self.row.texts.get("group", self.id)

    @property
    def source(self) -> str:
        """The publication or the person that the measurement comes from."""
        return self.row.texts.get("source", "")

    @property
    def network(self) -> str:
        """The name of the network, for people. A prediction depends on `model`, and not on this name."""
        return self.row.texts.get("network", str(self.settings.get("model", "unnamed")))

    @property
    def confidence(self) -> str:
        """How well the inputs of the run are known: high (the default), medium or low."""
        return self.row.texts.get("confidence", "high")

    @property
    def kind(self) -> str:
        """The kind of measurement: a training step, or only the forward and backward passes of layers."""
        return self.row.texts.get("kind", STEP)

    @property
    def fitted(self) -> bool:
        """Whether coefficients of the shipped tables were fitted to the row."""
        return self.row.texts.get("fitted") == "true"

    @property
    def out_of_memory(self) -> bool:
        """Whether the run ran out of memory."""
        return self.row.texts.get("ran_out_of_memory") == "true"

    @property
    def compared(self) -> dict[str, float | None]:
        """The measured quantities that are compared with predictions, by name, in canonical units."""
        return {name: value for name, value in self.row.measured.items() if name in (*COMPARED, MEMORY)}

    def scenario(self, lookup_tables: LookupTables = None) -> Scenario:
        """The config of the row, ready for an estimate.

        Raises:
            AmpedError: if the row cannot be modeled.
        """
        if self.reason:
            raise AmpedError(self.reason)
        return read_scenario({}, self.settings, lookup_tables)

    def predicted(self, e: Estimation, name: str) -> float:
        """The prediction of a measured quantity, from an estimate of this row's config.

        Memory is predicted as the source read it: the memory of one stage, or what the allocator or the device holds, or else the
        tensors alone.
        """
        if name != MEMORY:
            return e[name]
        stage = STAGE_OF_RANK.get(self.row.texts.get("memory_rank", ""))
        if stage is not None and e["pipeline_parallel_degree"] > 1:
            bytes_of_stage = sum(float(e.results.records(part)[stage].bytes) for part in HELD_BY_STAGES)
            return bytes_of_stage + e["weight_buffer_bytes"]
        return sum(e[part] for part in READ.get(self.row.texts.get("memory_reading", ""), (MEMORY,)))


def read_measurements(table: str | Path | None = None, lookup_tables: LookupTables = None) -> list[Measurement]:
    """The measurements of a table; by default, of the table that comes with amped.

    Args:
        table: a file of comma-separated values (`amped validate --template` prints its columns), or the log of a run.
        lookup_tables: a folder of lookup tables that overrule the shipped ones.

    Raises:
        AmpedError: for a table that cannot be read. A row that cannot be modeled is returned with its reason.
    """
    return measurements(read_runs(table), lookup_tables)


def measurements(rows: Sequence[Row], lookup_tables: LookupTables = None) -> list[Measurement]:
    """The rows as measurements. Repeats of one configuration share the values that amped takes for open parameters."""
    first_rows = {_config_text(row): row for row in reversed(rows)}
    measurements_by_config = {words: measurement(row, lookup_tables) for words, row in first_rows.items()}
    return [replace(measurements_by_config[_config_text(row)], row=row) for row in rows]


def _config_text(row: Row) -> str:
    """A text that is equal for rows with the same config."""
    return repr((sorted(row.settings.items()), row.open, row.facts, row.texts.get("assume")))


def measurement(row: Row, lookup_tables: LookupTables = None) -> Measurement:
    """One row as a measurement, with the values that amped takes for its open parameters, or the reason why it cannot be modeled."""
    settings, assumed = {**row.settings}, list[Taken]()

    def take(choice: Mapping[str, Any], why: str) -> None:
        """Adds values, by parameter, to the settings and to what is assumed."""
        settings.update(choice)
        assumed.extend(Taken(name, value, why) for name, value in choice.items())

    take(*_nearest_software(settings, user_tables(lookup_tables)))
    try:
        _refuse(row)
        take(as_estimated(settings, row.open, lookup_tables), AS_ESTIMATED)
    except AmpedError as error:
        return Measurement(row, row.settings, reason=one_line(error))
    if row.open and row.texts.get("assume") != "default":
        take(*tuned(settings, row.open, lookup_tables))
    return Measurement(row, settings, tuple(assumed))


def _refuse(row: Row) -> None:
    """Refuses a row with a feature that amped does not model, and a row that does not say what ran.

    Raises:
        AmpedError: with the reason.
    """
    for name in ESSENTIAL:
        if row.facts.get(name, "none") not in ("none", "false"):
            raise AmpedError(f"amped does not model {name} = {row.facts[name]} ({FACTS[name]})")
    missing = [
        description
        for description, choices in SAID.items()
        if not any(names <= row.settings.keys() for names in choices)
    ]
    if missing:
        raise AmpedError(f"the row does not say {' and '.join(missing)}")


def _nearest_software(settings: Mapping[str, Any], tables: Tables) -> tuple[dict[str, Any], str]:
    """The row for software that has no row, as {"software": name}, and the reason in words.

    It is the row whose name shares most words with the software's, else the one for an unknown stack. Nothing is taken if the
    settings name no software, or software that has a row.
    """
    name = str(settings.get("software", UNKNOWN_STACK))
    if tables.has(SOFTWARE, name):
        return {}, ""
    meant = tables.meant(SOFTWARE, name)
    row = meant if tables.has(SOFTWARE, meant) else tables.nearest_stack(name)
    if row is not None:
        return {"software": row}, f"there is no row '{name}'; this one is nearest in the words of its name"
    return {
        "software": UNKNOWN_STACK
    }, f"there is no row '{name}', nor one with a word of its name; this one is the middle of all"
