"""The machine of a row: its accelerator, and networks as the row says or as a system that is built with it has them."""

from __future__ import annotations

from amped.base.errors import AmpedError, Problem, quoted
from amped.tables.table_files import ACCELERATORS
from amped.tables.tables import Row, Tables
from amped.validation.columns import TableRow
from amped.validation.networks import bandwidth_per_accelerator, says_something, systems_of
from amped.validation.translated import Translation

# What is assumed of the machine, of which a config names the row and not the value.
MACHINE = ("system", "inter_accelerator_bandwidth", "inter_node_bandwidth")


def take_machine(row: TableRow, tables: Tables, result: Translation) -> None:
    """The accelerator's row, and networks: as the row says, else those of a system that is built with it."""
    accelerator = tables.row(ACCELERATORS, row.text("accelerator"))
    result.accelerator = accelerator.name
    count = row.numbers["gpus"]
    if "gpus_per_node" not in row.numbers:
        systems = list(systems_of(accelerator, 0, tables))
        own = systems[0].columns["number_of_accelerators_per_node"] if systems else int(count)
        result.assume("number_of_accelerators_per_node", min(own, int(count)), "as in a system built with it")
    nodes = result.values["number_of_accelerators_per_node"]
    system = next(systems_of(accelerator, nodes, tables), None)
    inside, across = (row.text(column) for column in ("intra_node_network", "inter_node_network"))
    if system is not None and count > 1:
        result.system = system.name
        result.assumed["system"] = f"latencies and efficiencies of networks as in {system.name}"
    domain = system.columns.get("scale_up_domain_size") if system is not None else None
    spans = "nvl" in across.casefold() or not says_something(across)
    reached = float(domain) if domain is not None and domain > nodes and spans else nodes
    result.values["scale_up_domain_size"] = reached
    _take_network(inside, "inter_accelerator_bandwidth", 1, count > 1, system, tables, result)
    _take_network(across, "inter_node_bandwidth", nodes, count > reached, system, tables, result)


def _take_network(
    text: str, name: str, accelerators: int, needed: bool, system: Row | None, tables: Tables, result: Translation
) -> None:
    """A bandwidth as the row has it in words; where it says nothing, the system's stands in."""
    said = bandwidth_per_accelerator(text, result.values["number_of_accelerators_per_node"], tables)
    if said is not None and says_something(text):
        result.values[name] = said * accelerators
    elif needed and says_something(text):
        raise AmpedError(Problem(f"{quoted(text)} says no bandwidth", "network", "write for example 50 GB/s/GPU"))
    elif needed:
        result.assumed[name] = f"{name} as in {system.name if system else 'no known system'}"
