"""A configuration on its way out: amped's values, the fields that they become, and what the other format cannot express."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any, NamedTuple

from amped.configuring.sources import Given
from amped.estimation.estimation import Estimation
from amped.interop.fields import Field, fields, table
from amped.interop.records import Reading, ReportLine
from amped.theory.language.catalogue import Quantity, catalogue
from amped.theory.language.quantity import MAPPING, NETWORK, SYSTEM


@dataclass
class Outgoing:
    """A configuration while it is written in another format.

    Attributes:
        values: amped's values by name, in canonical units; counts are whole numbers.
        given: the names that the user, the config or the row of the network gives.
        fields: the values that are written, by the other format's names; sections stand before a dot.
        why: the comment on each field.
        lost: what the other format cannot express; it comes first in the file.
        idle: quantities that have no effect in this configuration, and are not written.
    """

    values: Mapping[str, Any]
    given: frozenset[str]
    fields: dict[str, Any] = field(default_factory=dict)
    why: dict[str, str] = field(default_factory=dict)
    lost: list[ReportLine] = field(default_factory=list)
    idle: set[str] = field(default_factory=set)

    def write(self, why: str, section: str = "", /, **fields: Any) -> None:
        """Writes some fields of a section, all with the same comment `why`; a field whose value is None is left out."""
        for name, value in fields.items():
            if value is not None:
                self.fields[section + name], self.why[section + name] = value, why

    def lose(self, quantity: str, why: str) -> None:
        """Notes that a quantity cannot be expressed in the format, and why."""
        self.lost.append(ReportLine(quantity, why))

    def __getitem__(self, name: str) -> Any:
        """The value of a quantity, or its default in the catalogue if it has none."""
        value = self.values.get(name)
        return default_of(name) if value is None else value


def default_of(name: str) -> Any:
    """The default of a quantity in the catalogue; None if it has none, or if it follows from other quantities."""
    return next(iter(_defaults(catalogue()[name])), None)


def _defaults(quantity: Quantity) -> list[Any]:
    """All defaults of a quantity: the values of its formulas without arguments, one for each choice that has its own."""
    return [formula.function() for formula in quantity.formulas if not formula.arguments]


def heading(out: Outgoing, version: str, e: Estimation) -> list[str]:
    """The comment lines at the top of a file: the format and the title, and each quantity that cannot be expressed."""
    lost = [f"#   {line}" for line in out.lost]
    head = "# Cannot be expressed here:" if lost else "# Everything that amped knows of this mapping is expressed."
    return [f"# {version}, written by amped: {e.scenario.title}", head, *lost]


def run_line(out: Outgoing, program: str) -> str:
    """The comment line with the command that starts the file; `program` is the program with its arguments."""
    on_every_server = f"; on every server, with {HEAD} the name of the first" if servers(out)[0] > 1 else ""
    return f"# run{on_every_server}: {torchrun(out)} {program}"


# The variable with the server at which the others meet, and the line that asks for it.
HEAD = "HEAD"
HEAD_IS_YOURS = (
    f': "${{{HEAD}:?is the name of the first server, and yours to set}}"  # start this script on every server'
)


def torchrun(out: Outgoing, job: str = "amped") -> str:
    """The torchrun command that starts the processes of a server. Several servers meet at the first one, under the name of the job."""
    nodes, accelerators = servers(out)
    rendezvous = f' --rdzv-id {job} --rdzv-backend c10d --rdzv-endpoint "${HEAD}:29500"' if nodes > 1 else ""
    return f"torchrun --nnodes {nodes} --nproc-per-node {accelerators}{rendezvous}"


# The column of a system whose node, a rack, is several hosts.
ACCELERATORS_PER_HOST = "accelerators_per_host"


def servers(out: Outgoing) -> tuple[int, int]:
    """The number of servers, and how many accelerators of each server train.

    A server is a host; of a rack with one fast network, that is one of its trays. All servers have equally many accelerators:
    the largest number that a server has and that divides all of them.
    """
    total, node_size = out["number_of_accelerators"], out["number_of_accelerators_per_node"]
    server_size = min(node_size, out.values.get(ACCELERATORS_PER_HOST, node_size), total)
    accelerators = next(number for number in range(server_size, 0, -1) if total % number == 0)
    return total // accelerators, accelerators


class Rule(NamedTuple):
    """Reads and writes several keys and quantities that belong together.

    Attributes:
        read: returns values by quantity from the keys of a file and the values so far; it may add to the report.
        write: adds fields for a configuration; a format that amped only reads has none.
    """

    read: Callable[[Reading], dict[str, Any]]
    write: Callable[[Outgoing], None] = lambda _: None


def outgoing(e: Estimation) -> Outgoing:
    """The values of an estimated configuration, ready to be written, with no fields yet."""
    quantities, sources, choices = e.scenario.catalogue, e.scenario.sources, e.choices
    values: dict[str, Any] = {}
    for name in {*table("fields")["rows"], *EXTRA, *sources.origins}:
        if name in choices:
            values[name] = choices[name]
        elif isinstance(value := e[name] if name in e else sources.given.get(name), int | float):
            values[name] = _json_number(float(value), quantities[name].mark.unit)
    system = sources.rows.get(SYSTEM)
    if system is not None and ACCELERATORS_PER_HOST in system.columns:
        values[ACCELERATORS_PER_HOST] = system.columns[ACCELERATORS_PER_HOST]
    return Outgoing(values, frozenset(sources.origins))


# What is trained, and when: a format without a field for these trains something else, which is told even where the mapping alone
# is written.
MANNER = ("adapters", "optimizer_placement")
# Quantities that exporters need beside those that formats name.
EXTRA = ("number_of_nodes", "data_parallel_degree", "norm_position", "causal", "pipeline_schedule", "tensor_parallel_strategy",
         "number_of_stacks", "embedding_norm", "pooler", "cross_attention_layers", "gated_experts", "kinds_of_layers", "norms_per_layer",
         "final_norm", "expert_bias", "relative_position_tables", *MANNER, "expert_adapters", "trained_ends", "frozen_weight_format",
         "number_of_adapted_layers", "gated_mlp", "number_of_microbatches_per_minibatch", "tower")  # fmt: skip
# The names of a tower, for which no format has fields.
OF_TOWER = ("tower", "images_per_sequence")


def _json_number(value: float, unit: str) -> Any:
    """A number as JSON has it: true or false for a boolean, an integer if it is whole, else a float."""
    if unit == "boolean":
        return bool(value)
    return int(value) if float(value).is_integer() else value


def written(e: Estimation, form: str, rules: Mapping[str, Rule]) -> Outgoing:
    """A configuration as fields of a format. What no field carries is noted as lost.

    Args:
        e: the estimate.
        form: the name of the format.
        rules: the rules of the format by name; each one that fields.json names writes once.
    """
    out = outgoing(e)
    applied_rules = set()
    for quantity, row in fields(form).items():
        if row.rule is not None and row.rule not in applied_rules:
            applied_rules.add(row.rule)
            rules[row.rule].write(out)
        elif row.rule is None and quantity in out.values and row.applies(out.values):
            out.write(row.why, **{row.keys[0]: _converted(out, quantity, row)})
    out.lost += [*_not_carried(e, out, form), *_trained_otherwise(e, out, form)]
    out.lost += of_tower(out) if "layers" in fields(form) else []
    _lose_unlike(out, **table(form).get("fixed", {}))
    return out


def _trained_otherwise(e: Estimation, out: Outgoing, form: str) -> list[ReportLine]:
    """A line for each way of training that no field of a format carries."""
    others = [name for name in MANNER if name not in fields(form) and not is_default(e, name, out)]
    return [ReportLine(name, f"{out[name]} has no field here: as written, this trains otherwise") for name in others]


def of_tower(out: Outgoing) -> list[ReportLine]:
    """A line about the encoder in front of the network, which no format writes; none if there is no such encoder."""
    what = "the encoder in front of the network is not written: as written, this trains the decoder alone"
    return [ReportLine("tower", what)] if out["tower"] != "none" else []


def _lose_unlike(out: Outgoing, values: Mapping[str, Any] = MappingProxyType({}), why: str = "") -> None:
    """Notes as lost each quantity that differs from the fixed value which every file of a format means.

    Args:
        out: the configuration.
        values: the fixed values by quantity.
        why: the reason, with {usual} for the fixed value.
    """
    for name, usual in values.items():
        if out[name] != usual:
            out.lost = [line for line in out.lost if line.key != name]
            out.lose(name, f"{out[name]}: {why.format(usual=usual)}")


def _converted(out: Outgoing, quantity: str, field: Field) -> Any:
    """A value in the form of the other format. A value without a word there is noted as lost, and the last word is written."""
    value = out.values[quantity]
    if not field.words:
        return field.by.write(value)
    if catalogue()[quantity].mark.unit == "byte":
        value *= 8  # words mean the bits that a config says
    words = {value_here: word for word, value_here in field.words}
    if value not in words:
        out.lose(quantity, f"{value}: {field.lost}")
    return words.get(value, field.words[-1][0])


def _not_carried(e: Estimation, out: Outgoing, form: str) -> list[ReportLine]:
    """A line for each given quantity that no field of the format carries and that is not its default.

    Only quantities of the mapping count, and those of the network if the format has fields for the network.
    """
    format_fields, fixed_values, lines = fields(form), table(form).get("always", {}), []
    categories = (NETWORK, MAPPING) if "layers" in format_fields else (MAPPING,)  # else the network is somewhere else
    for name, origin in e.scenario.sources.origins.items():
        is_instruction = (
            e.scenario.catalogue[name].category in categories and name not in table("fields")["no_instructions"]
        )
        is_missing = is_instruction and name not in format_fields and out.values.get(name) != fixed_values.get(name)
        if isinstance(origin, Given) and is_missing and not is_default(e, name, out) and not name.startswith(OF_TOWER):
            lines.append(ReportLine(name, f"{origin.written} has no field here"))
    return lines


def is_default(e: Estimation, name: str, out: Outgoing) -> bool:
    """Whether the value of a quantity is one of its defaults in the catalogue."""
    return out.values.get(name) in _defaults(e.scenario.catalogue[name])
