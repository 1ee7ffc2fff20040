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
    """What is written.

    Attributes:
        values: amped's values by name, in canonical units; counts are whole numbers.
        given: the names that the user, the config or the row of the network gives.
        fields: what is written, by the other format's names.
        why: the comment on each field.
        lost: what the other format cannot express; it comes first in the file.
        idle: what changes nothing in this configuration, and is not written.
    """

    values: Mapping[str, Any]
    given: frozenset[str]
    fields: dict[str, Any] = field(default_factory=dict)
    why: dict[str, str] = field(default_factory=dict)
    lost: list[ReportLine] = field(default_factory=list)
    idle: set[str] = field(default_factory=set)

    def write(self, why: str, section: str = "", /, **fields: Any) -> None:
        """Writes some fields of a section with one comment; None is left out."""
        for name, value in fields.items():
            if value is not None:
                self.fields[section + name], self.why[section + name] = value, why

    def lose(self, quantity: str, why: str) -> None:
        """Notes what cannot be expressed."""
        self.lost.append(ReportLine(quantity, why))

    def __getitem__(self, name: str) -> Any:
        """A value, or what the catalogue has where nobody gives one."""
        value = self.values.get(name)
        return default_of(name) if value is None else value


def default_of(name: str) -> Any:
    """What the catalogue has where nobody gives a quantity; None if it has nothing, or the quantity follows from others."""
    return next(iter(_defaults(catalogue()[name])), None)


def _defaults(quantity: Quantity) -> list[Any]:
    """The values that formulas without arguments give a quantity: one, or several for several choices."""
    return [formula.function() for formula in quantity.formulas if not formula.arguments]


def heading(out: Outgoing, version: str, e: Estimation) -> list[str]:
    """The comments above a file: what it is, and what cannot be expressed."""
    lost = [f"#   {line}" for line in out.lost]
    head = "# Cannot be expressed here:" if lost else "# Everything that amped knows of this mapping is expressed."
    return [f"# {version}, written by amped: {e.scenario.title}", head, *lost]


def run_line(out: Outgoing, what: str) -> str:
    """The comment that says how to start what the file describes."""
    where = f"; on every server, with {HEAD} the name of the first" if servers(out)[0] > 1 else ""
    return f"# run{where}: {torchrun(out)} {what}"


# The variable with the server at which the others meet, and the line that asks for it.
HEAD = "HEAD"
HEAD_IS_YOURS = (
    f': "${{{HEAD}:?is the name of the first server, and yours to set}}"  # start this script on every server'
)


def torchrun(out: Outgoing, job: str = "amped") -> str:
    """How torchrun starts the processes of a server; several servers meet at the first one, under the name of the job."""
    nodes, accelerators = servers(out)
    meeting = f' --rdzv-id {job} --rdzv-backend c10d --rdzv-endpoint "${HEAD}:29500"' if nodes > 1 else ""
    return f"torchrun --nnodes {nodes} --nproc-per-node {accelerators}{meeting}"


# The column of a system whose node, a rack, is several hosts.
OF_A_HOST = "accelerators_per_host"


def servers(out: Outgoing) -> tuple[int, int]:
    """How many servers, and the accelerators of each that train: the most that divide all of them.

    A server is a host; of a rack with one fast network, that is one of its trays.
    """
    total, node = out["number_of_accelerators"], out["number_of_accelerators_per_node"]
    most = min(node, out.values.get(OF_A_HOST, node), total)
    accelerators = next(number for number in range(most, 0, -1) if total % number == 0)
    return total // accelerators, accelerators


def read_only(out: Outgoing) -> None:
    """Writes nothing: amped only reads the format."""
    del out


class Rule(NamedTuple):
    """Several keys and quantities together, in both directions.

    Attributes:
        read: from the keys of a file, the values so far and the report, to further values.
        write: from a configuration to fields; a format that is only read has none.
    """

    read: Callable[[Reading], dict[str, Any]]
    write: Callable[[Outgoing], None] = read_only


def outgoing(e: Estimation) -> Outgoing:
    """The values of an estimate, with the layout of its stages."""
    quantities, sources, choices = e.scenario.catalogue, e.scenario.sources, e.choices
    values: dict[str, Any] = {}
    for name in {*table("fields")["rows"], *EXTRA, *sources.origins}:
        if name in choices:
            values[name] = choices[name]
        elif isinstance(number := e[name] if name in e else sources.given.get(name), float):
            values[name] = _plain(number, quantities[name].mark.unit)
    system = sources.rows.get(SYSTEM)
    if system is not None and OF_A_HOST in system.columns:
        values[OF_A_HOST] = system.columns[OF_A_HOST]
    return Outgoing(values, frozenset(sources.origins))


# Quantities that exporters need beside those that formats name.
EXTRA = ("number_of_nodes", "data_parallel_degree", "norm_position", "causal", "pipeline_schedule", "tensor_parallel_strategy",
         "number_of_stacks", "embedding_norm", "pooler", "cross_attention_layers", "gated_experts", "kinds_of_layers", "norms_per_layer",
         "final_norm", "expert_bias", "relative_position_tables")  # fmt: skip


def _plain(value: float, unit: str) -> Any:
    """A number as JSON has it: true or false, a whole number, or a number."""
    if unit == "boolean":
        return bool(value)
    return int(value) if float(value).is_integer() else value


def written(e: Estimation, form: str, rules: Mapping[str, Rule]) -> Outgoing:
    """A configuration in the fields of a format; what no field carries is noted as lost."""
    out = outgoing(e)
    done = set()
    for quantity, row in fields(form).items():
        if row.rule is not None and row.rule not in done:
            done.add(row.rule)
            rules[row.rule].write(out)
        elif row.rule is None and quantity in out.values and row.applies(out.values):
            out.write(row.why, **{row.keys[0]: _converted(out, quantity, row)})
    out.lost += _not_carried(e, out, form)
    _lose_unlike(out, **table(form).get("fixed", {}))
    return out


def _lose_unlike(out: Outgoing, values: Mapping[str, Any] = MappingProxyType({}), why: str = "") -> None:
    """Notes what is unlike the values that every file of a format has."""
    for name, usual in values.items():
        if out[name] != usual:
            out.lost = [line for line in out.lost if line.key != name]
            out.lose(name, f"{out[name]}: {why.format(usual=usual)}")


def _converted(out: Outgoing, quantity: str, row: Field) -> Any:
    """A value in the other format; one without a word there is lost, and the last word is written."""
    value = out.values[quantity]
    if not row.words:
        return row.by.write(value)
    if catalogue()[quantity].mark.unit == "byte":
        value *= 8  # words mean the bits that a config says
    words = {ours: theirs for theirs, ours in row.words}
    if value not in words:
        out.lose(quantity, f"{value}: {row.lost}")
    return words.get(value, row.words[-1][0])


def _not_carried(e: Estimation, out: Outgoing, form: str) -> list[ReportLine]:
    """What was given about the network or the mapping, is not the default, and has no field in the format."""
    carried, usual, lines = fields(form), table(form).get("always", {}), []
    about = (NETWORK, MAPPING) if "layers" in carried else (MAPPING,)  # else the network is somewhere else
    for name, origin in e.scenario.sources.origins.items():
        instruction = e.scenario.catalogue[name].category in about and name not in table("fields")["no_instructions"]
        missing = instruction and name not in carried and out.values.get(name) != usual.get(name)
        if isinstance(origin, Given) and missing and not is_default(e, name, out):
            lines.append(ReportLine(name, f"{origin.written} has no field here"))
    return lines


def is_default(e: Estimation, name: str, out: Outgoing) -> bool:
    """Whether a value is what the catalogue has where nobody gives one."""
    return out.values.get(name) in _defaults(e.scenario.catalogue[name])
