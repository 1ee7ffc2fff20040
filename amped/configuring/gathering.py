"""Brings the sources together: the overrides, the config, then the rows of lookup tables, the strongest first."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import replace
from functools import partial
from typing import Any

from amped.base.aliases import aliases
from amped.base.errors import AmpedError, ConfigError, Problem, TableError, collected, did_you_mean, quoted
from amped.base.numbers import settable
from amped.base.units import COARSE, LEAST_COARSE
from amped.configuring.config import Config, Entry
from amped.configuring.dualpipe import FOLDED, TOLD
from amped.configuring.following import as_amped_calculates, followers_of_a_row, followers_of_entries
from amped.configuring.kernel_tables import NAME as MEASURED
from amped.configuring.kernel_tables import KernelTable
from amped.configuring.lengths import LENGTHS, PACKED, PACKING, WAYS, read_documents
from amped.configuring.market import powered, priced
from amped.configuring.node_links import NAME as LINK
from amped.configuring.node_links import link_settings
from amped.configuring.not_modeled import ANYWAY, KEY, unbounded
from amped.configuring.not_modeled import entries as not_modeled_entries
from amped.configuring.sources import Calculated, Given, LookedUp, Sources
from amped.configuring.uneven_sequences import sequences_of
from amped.configuring.unknown_columns import unknown_columns
from amped.configuring.values import read_value, read_values
from amped.tables.kin import TIED, Kin, in_doubt, names_of_kernels, nearest, of_kin, own_kernels
from amped.tables.prices import MARKET
from amped.tables.recipes import (
    MANNER,
    MANNERS,
    TUNED,
    Circumstances,
    as_recipes_have_it,
    in_manner,
    machine,
    networks,
    notice_of_another_release,
    notice_of_the_nearest_release,
)
from amped.tables.stacks import middle
from amped.tables.table_files import ACCELERATORS, KERNELS, LINKS, MODELS, SOFTWARE, SYSTEMS
from amped.tables.tables import Row, Tables
from amped.theory.language.catalogue import Catalogue, Quantity
from amped.theory.language.doors import inside
from amped.theory.language.quantity import ACCELERATOR, MAPPING, NETWORK, SYSTEM

TABLE_OF = {NETWORK: MODELS, SYSTEM: SYSTEMS, ACCELERATOR: ACCELERATORS, MAPPING: SOFTWARE}
ROW_NAMES = {
    "model": NETWORK, "system": SYSTEM, "accelerator": ACCELERATOR, "software": MAPPING, KERNELS: KERNELS, LINK: LINKS,
}  # fmt: skip
# What a system's row says about a whole node. A node with other accelerators has proportionally more or less.
NODE, DOMAIN = "number_of_accelerators_per_node", "scale_up_domain_size"
OF_A_NODE = ("number_of_network_cards_per_node", "host_memory_capacity", "host_memory_bandwidth")
# What recipes ask of the network and of the machine.
OF_KIND = ("layers", "number_of_experts", "key_value_latent_dimension", "expert_bias")
OF_MACHINE = ("compute_capability", DOMAIN)
# The row of kernel_efficiencies for an accelerator that has no row of its own.
ANY_ACCELERATOR = "default"
# The ends of the names of a machine's quantities that nobody means in bytes, Hz or flop/s.
OF_MACHINES = ("memory_capacity", "bandwidth", "bandwidth_per_network_card", "flop_rate", "frequency")


def is_row(tables: Tables, name: str, text: str) -> bool:
    """Whether a text is the name of a row of the kind that a config names by "model", "system" and so on."""
    category = ROW_NAMES.get(name)
    return category is not None and tables.has(TABLE_OF.get(category, category), text)


def build_sources(
    config: Config,
    tables: Tables,
    catalogue: Catalogue,
    overrides: Mapping[str, object] | None = None,
) -> Sources:
    """Brings together the config, the overrides, and the rows that they name.

    Args:
        config: the config as it is written.
        tables: the lookup tables.
        catalogue: all quantities.
        overrides: values by name, and rows under "model", "system", "accelerator", "software" and so on: names of rows, or
            the row itself as a mapping with "name", "file", "columns" and "notices".

    Raises:
        ConfigError, TableError: with all problems.
    """
    values = dict(overrides or {})
    anyway, manner = values.pop(ANYWAY, False), values.pop(MANNER, None)
    place = f"--{LENGTHS}" if LENGTHS in values else LENGTHS
    documents = {**config.documents, **{name: values.pop(name) for name in (LENGTHS, PACKING) if name in values}}
    market = {name: values.pop(name) for name in MARKET if name in values}
    is_folded = values.pop(FOLDED, False)
    options = {name: aliases().option(name) for name in values}
    rows = {ROW_NAMES[row]: values.pop(name) for name, row in options.items() if row in ROW_NAMES}
    builder = _Builder(config, tables, catalogue)
    builder.notices += [TOLD] if is_folded else []
    builder.override(values | builder.look_up_link(rows.pop(LINKS, None), values))
    rows[MAPPING] = builder.software_in_manner(rows.get(MAPPING), manner)
    builder.look_up_rows({category: _named(row) for category, row in rows.items() if row is not None})
    builder.take_entries()
    builder.fill_from_rows()
    builder.fill_sequences(documents.get(LENGTHS), documents.get(PACKING), place)
    builder.calculate_as_amped_did()
    builder.take_price(market)
    builder.scale_to_the_node()
    builder.read_kernel_table()
    builder.problems += () if anyway else unbounded(builder.sources.not_modeled)
    if builder.problems:
        raise ConfigError(builder.problems, file=config.label)
    return builder.sources


class _Builder:
    """Collects sources and problems; each step is one layer of precedence, the strongest first."""

    def __init__(self, config: Config, tables: Tables, catalogue: Catalogue) -> None:
        self.config, self.tables, self.catalogue = config, tables, catalogue
        self.entries = dict(config.entries)
        self.sources = Sources(notices=[*config.notices, *tables.notices], not_modeled=config.not_modeled)
        self.notices = self.sources.notices
        self.problems: list[Problem] = list(config.problems)
        self.replaced: set[str] = set()
        self.equals = list(config.equals)
        self.rowless: set[str] = set()
        self.of_kin: dict[str, LookedUp] = {}

    def look_up_link(self, name: object, overrides: Mapping[str, object]) -> dict[str, object]:
        """The settings that the row of the link between nodes gives; a list of rows is kept for a search."""
        if name is None or isinstance(name, list):
            self.sources.row_sweeps.update({LINKS: tuple(name)} if name else {})
            return {}
        given = {n: e.value for n, e in self.entries.items() if e.kind == "value"} | dict(overrides)
        try:
            return link_settings(str(name), given, self.tables, self.catalogue)
        except AmpedError as error:
            self.problems += error.problems
            return {}

    def software_in_manner(self, software: object, manner: object) -> object:
        """The software that the overrides or the config name, in a manner; as it is if nobody says how it runs."""
        named = software or self.config.lookups.get(MAPPING, (None, None))[1]
        if manner not in (None, *MANNERS):
            what = f"{quoted(str(manner))} is no manner in which software runs"
            tuned = (
                "; tuned is for estimate, explore, why, tune and recommend of a model, without a config"
                if manner == TUNED
                else ""
            )
            self.problems.append(Problem(what, MANNER, f"write {' or '.join(MANNERS)}{tuned}"))
        elif manner is not None and not isinstance(named, str):
            self.notices.append(f"--{MANNER} {manner} changes nothing: no software is named")
        if manner not in MANNERS or not isinstance(named, str):
            return software
        try:
            name = in_manner(self.tables, named, str(manner))
        except AmpedError as error:
            self.problems += error.at(MANNER)
            return software
        notice = notice_of_another_release(named, self.tables.row(SOFTWARE, name))
        self.notices += [notice] if notice else []
        return name

    def override(self, overrides: Mapping[str, object]) -> None:
        """Adds the values from the command line or a call; each removes every source that it determines."""
        entries: dict[str, Entry] = {}
        for written_name, name, written in self._read_names(overrides):
            where = f"--set {written_name}"
            if name not in self.catalogue or self.catalogue[name].mark.constrains:
                self.problems.append(self._unknown(written_name, where))
            elif self.catalogue.is_inside(name):
                self.problems.append(inside(name, self.catalogue, where))
            elif written_name in aliases().equal_to:
                self.equals.append(Entry(name, written_name, where, kind="value", value=written))
            elif name in entries:
                self.problems.append(Problem(f"'{name}' is set twice", where, f"the other is {entries[name].where}"))
            else:
                entries[name] = Entry(name, written_name, where, kind="value", value=written)
                self.problems += _without_unit(name, written, self.catalogue[name].mark.unit, where)
        for follower, notice in [*followers_of_entries(self.entries, entries)]:
            del self.entries[follower]
            self.notices.append(notice)
        for name, entry in entries.items():
            for other in sorted(self.catalogue[name].replaces & set(self.entries)):
                self.notices.append(f"{entry.where} takes the place of {self.entries.pop(other).where}")
        self.entries |= entries

    def _read_names(self, overrides: Mapping[str, object]) -> Iterator[tuple[str, str, object]]:
        """For each override: the name as written, amped's name, and the value; adds notices about replaced names."""
        for written_name, written in overrides.items():
            with collected(self.problems, f"--set {written_name}"):
                meant, notices = aliases().all_given({written_name: written})
                self.notices += notices
                yield from ((written_name, aliases().canonical(name), value) for name, value in meant.items())

    def _unknown(self, written_name: str, where: str) -> Problem:
        """The problem of a name that is no parameter: retired, a rule, or unknown."""
        if written_name in aliases().retired:
            return Problem(f"{quoted(written_name)} is a retired name, and not used", where, "leave it out")
        names = [*self.catalogue.public, *ROW_NAMES, *aliases().suggested()]
        rule = ", which is a rule" if written_name in self.catalogue.constraints else ""
        hint = did_you_mean(written_name, names) or "`amped list parameters` shows them"
        return Problem(f"unknown parameter {quoted(written_name)}{rule}", where, hint)

    def look_up_rows(self, overrides: Mapping[str, str | Mapping[str, Any]]) -> None:
        """Finds the row of each category: the one in `overrides`, else that of the config or, for accelerators, of the system."""
        for category in TABLE_OF:
            row: Any
            table, row = self.config.lookups.get(category, (None, None))
            if category in overrides:
                row = overrides[category]
            elif category == ACCELERATOR and (row is None or SYSTEM in overrides):
                row, table = self._accelerator_of_system(row), None
            if isinstance(row, list):
                self.sources.row_sweeps[category] = tuple(row)
                for name in row:
                    self._row(category, table or TABLE_OF[category], name, False)
            elif isinstance(row, Mapping):
                self.notices += row["notices"]
                self.sources.not_modeled += not_modeled_entries(row.get(KEY, ()))
                of_file = Row(TABLE_OF[category], row["name"], row["columns"], row["file"], is_a_file=True)
                self._use_row(category, of_file, True)
            elif row is not None:
                self._take_row(category, table or TABLE_OF[category], row, category in overrides)
        self._tell_of_other_accelerator()
        self._tell_of_unknown_tables(overrides)
        self._look_up_kernels(overrides.get(KERNELS))

    def _tell_of_unknown_tables(self, overrides: Mapping[str, Any]) -> None:
        """Adds a notice for each unknown table that the config names and from which no row is taken."""
        for category, (table, row) in self.config.lookups.items():
            if table and (row is None or category in overrides) and table not in self.tables.all_names():
                where = f"{category}.lookup_config.lookup_table_name"
                self.notices.append(f"{where}: there is no lookup table {quoted(table)}, and nothing here uses it")

    def _accelerator_of_system(self, configured: Any) -> Any:
        """The accelerator that the system is built with; the one of the config if the system's row has none."""
        system = self.sources.rows.get(SYSTEM)
        built_with = system.columns.get("accelerator") if system else None
        if system is None or built_with in (None, ""):
            return configured
        if not isinstance(built_with, str):
            where = f"{system.table}, row '{system.name}', column 'accelerator'"
            self.problems.append(Problem(f"{quoted(built_with)} is not the name of an accelerator", where))
            return configured
        if configured and built_with != configured:
            self.notices.append(f"the accelerator is {built_with}, as system '{system.name}' has it")
        return built_with

    def _row(self, category: str, table: str, name: str, overriding: bool) -> Row | None:
        """A row of a table; None, with the problems added, if it cannot be found or read."""
        try:
            row = middle(self.tables, self.tables.row(table, name))
        except TableError as error:
            self.rowless.add(category)
            self.problems += error.at("" if overriding else f"{category}.lookup_config")
            return None
        self._check_columns(row)
        return row

    def _check_columns(self, row: Row) -> None:
        """Adds a problem for each column of a user's row that amped does not know."""
        if not row.is_shipped:
            self.problems += [replace(p, where=f"{row.file}: {p.where}") for p in unknown_columns(row, self.catalogue)]

    def _take_row(self, category: str, table: str, name: str, overriding: bool) -> None:
        """Takes a row of a table as the one of its category, with a notice if the name is an alias of the row's."""
        row = self._row(category, table, name, overriding)
        if row is not None:
            if self.tables.meant(table, name) != name:
                release = notice_of_the_nearest_release(self.tables, name, row) if table == SOFTWARE else ""
                self.notices.append(f"{quoted(name)} is read as the row '{row.name}'{release}")
            self._use_row(category, row, overriding)

    def _use_row(self, category: str, row: Row, overriding: bool) -> None:
        """Takes a row as the one of its category, and adds notices on what it replaces.

        Args:
            category: the category of the row.
            row: the row.
            overriding: whether the user named it in addition to the config; it then replaces the config's values.
        """
        self.sources.rows[category] = row
        self.notices += [*filter(None, (row.preliminary,)), *row.notices]
        if not row.is_shipped and self.tables.ships(row.table, row.name) and not row.columns.get("anchored_on"):
            self.notices.append(f"row '{row.name}' of {row.file} takes the place of amped's own row{_kept(row)}")
        section = ACCELERATOR if category == KERNELS else category
        dropped = [e.name for e in self.entries.values() if e.category == section and e.name in row.columns]
        if overriding and dropped and category != MAPPING:  # a mapping may differ from software's defaults
            for name in dropped:
                del self.entries[name]
            self.notices.append(f"row '{row.name}' takes the place of what the config has for {', '.join(dropped)}")
        tokens = self.entries.get("tokens_to_train")
        published = row.columns.get("training_tokens")
        if overriding and tokens is not None and tokens.where.startswith(NETWORK) and published:
            given = (
                read_value(self.catalogue["tokens_to_train"], tokens.value, False) if tokens.kind == "value" else None
            )
            if given != published:
                self.notices.append(
                    f"tokens_to_train stays {tokens.value}, as the config has it; '{row.name}' was trained on {settable(published)}"
                )

    def _look_up_kernels(self, given: object) -> None:
        """Finds the row of kernel efficiencies: that of the caller, of the config, or of the accelerator."""
        entry = self.entries.pop(KERNELS, None)
        if given is not None:
            self._take_row(KERNELS, KERNELS, str(given), True)
        elif entry is not None:
            with collected(self.problems, entry.where):
                row = self.tables.row(KERNELS, str(entry.value))
                self._check_columns(row)
                self._use_row(KERNELS, row, False)
        else:
            self._take_kernels_of(self.sources.rows.get(ACCELERATOR))

    def _take_kernels_of(self, accelerator: Row | None) -> None:
        """Takes the row of kernel efficiencies of an accelerator, else of its nearest kin; what is in doubt is its kin's."""
        kernels = own_kernels(self.tables, accelerator) if accelerator else None
        kin = nearest(self.tables, accelerator) if accelerator and kernels is None else None
        name = kernels.name if kernels else kin.kernels.name if kin else ANY_ACCELERATOR
        self._take_row(KERNELS, KERNELS, name, False)
        if accelerator is None:
            return
        if kin is not None:
            doubt = f"no kernel efficiencies of {accelerator.name} are known: {kin.text}"
            self.sources.doubts[KERNELS] = doubt
        elif name not in names_of_kernels(accelerator):
            self.sources.doubts[KERNELS] = (
                f"no kernel efficiencies of {accelerator.name} are known: those of '{name}' are used"
            )
        self._take_from_kin(accelerator)

    def _take_from_kin(self, accelerator: Row) -> None:
        """Takes the coefficients that the row of kernel efficiencies has in doubt from the nearest accelerator that knows them."""
        kernels = self.sources.rows.get(KERNELS)
        for column in in_doubt(accelerator, kernels) if kernels else ():
            kin = nearest(self.tables, accelerator, column)
            if kin is not None and kernels is not None:
                self.of_kin[column] = _of_kin(kernels, kin, column)

    def _tell_of_other_accelerator(self) -> None:
        """Adds a notice if the system is built with another accelerator than the chosen one."""
        system, accelerator = self.sources.rows.get(SYSTEM), self.sources.rows.get(ACCELERATOR)
        built_with = system.columns.get("accelerator") if system else None
        if system and accelerator and isinstance(built_with, str) and built_with != accelerator.name:
            self.notices.append(
                f"system '{system.name}' is built with {built_with}; its network is kept for {accelerator.name}"
            )

    def take_entries(self) -> None:
        """Takes all values of the config and of the overrides."""
        for name, entry in self.entries.items():
            with collected(self.problems, entry.where):
                self._take(name, entry)
        for entry in self.equals:
            with collected(self.problems, entry.where):
                value = read_value(self.catalogue[entry.name], entry.value, True)
                self.sources.equals[entry.name] = (float(value), entry.where)

    def _take(self, name: str, entry: Entry) -> None:
        """Takes one entry: a name to be calculated, a column of a row, a sweep or a value."""
        quantity, old = self.catalogue[name], self.config.old_style and bool(entry.category)
        if entry.kind == "calculated":
            self.sources.calculated[name] = Calculated(entry.where)
        elif entry.kind == "table":
            row = self._row_for(entry)
            if row is not None:
                self.sources.add(name, _looked_up(quantity, row, entry.column, entry.where))
        elif isinstance(entry.value, list):
            self.sources.sweeps[name] = read_values(quantity, entry.value, old)
            self.replaced |= quantity.replaces
        else:
            value = read_value(quantity, entry.value, old)
            self.sources.add(name, Given(value, entry.value, entry.where))
            self.replaced |= quantity.replaces
            if old and quantity.mark.unit == "byte/s" and isinstance(value, float) and not _in_bytes(entry.value):
                self.notices.append(
                    f"{entry.written_name}: {quoted(entry.value)} is read as bits in a second, {value / 1e9:g} GB/s"
                )

    def _row_for(self, entry: Entry) -> Row | None:
        """The row in which an entry is to be looked up; None if the row is missing and reported already, or if it is swept.

        Raises:
            ConfigError: if no row is named.
        """
        category = entry.category if entry.category in self.sources.rows else self.catalogue[entry.name].category
        row = self.sources.rows.get(category or "")
        if row is None and not {entry.category, category} & (self.rowless | self.sources.row_sweeps.keys()):
            raise ConfigError(f"is to be looked up, but {entry.category} names no table row",
                              'give it a "lookup_config" with a "lookup_table_row"')  # fmt: skip
        return row

    def fill_from_rows(self) -> None:
        """Takes from rows the values that are not given and do not follow from given ones; the software's row comes last."""
        following = dict(followers_of_a_row(self.sources, self.sources.rows.get(NETWORK)))
        self.notices += following.values()
        taken = self.sources.named() | following.keys()
        for category, row in sorted(self.sources.rows.items(), key=lambda item: item[0] == MAPPING):
            row = as_recipes_have_it(row, self._circumstances()) if category == MAPPING else row
            taken = taken | self.sources.origins.keys() if category == MAPPING else taken
            untaken = [c for c, v in row.columns.items() if v is not None and c in self.catalogue and c not in taken]
            silenced = [column for column in untaken if column in self.replaced]
            if silenced:
                self.notices.append(f"what is given takes the place of {', '.join(silenced)} of row '{row.name}'")
            for column in untaken:
                if column not in self.replaced:
                    with collected(self.problems):
                        of_kin = self.of_kin.get(column) if category == KERNELS else None
                        self.sources.add(column, of_kin or _looked_up(self.catalogue[column], row, column))

    def fill_sequences(self, lengths: object, packing: object, place: str) -> None:
        """Takes what equations need of the lengths of documents that are packed into sequences, or padded.

        `place` is where the lengths are given: the option or the key of the config.
        """
        if lengths is None:
            missing = Problem(
                "says how documents fill sequences, and no lengths are given", PACKING, f"give --{LENGTHS}"
            )
            self.problems += [missing] if packing is not None else []
            return
        context, packing = self.sources.given.get("context"), packing or PACKED
        if packing not in WAYS:
            what = f"{quoted(packing)} is no way to fill sequences with documents"
            self.problems.append(Problem(what, PACKING, f"write {' or '.join(WAYS)}"))
        elif not isinstance(context, float):
            what = "documents fill sequences whose length is not known" if not context else "lengths need one context"
            self.problems.append(Problem(what, LENGTHS, "give the tokens of a sequence: --seq 8192"))
        else:
            with collected(self.problems, place):
                given, choices = self.sources.given, self.sources.choices
                found = sequences_of(read_documents(str(lengths)), int(context), str(packing), given, choices)
                self.notices.append(found.text)
                for name in found.settings.keys() - (self.sources.named() - {"context"}):
                    self.sources.add(name, Given(found.settings[name], found.settings[name], f"{place} {lengths}"))

    def take_price(self, asked: Mapping[str, object]) -> None:
        """Takes the price and the grid that the overrides (`asked`) or the config name, and tells which lists they are of."""
        with collected(self.problems):
            priced(self.sources, self.tables, self.config.market, asked)
            powered(self.sources, self.tables, self.config.market, asked)

    def _circumstances(self) -> Circumstances:
        """What the conditions of recipes ask, from what is given and from the rows of network, accelerator and system."""
        columns = {name: value for row in self.sources.rows.values() for name, value in row.columns.items()}
        number = {name: float(self.sources.given.get(name, columns.get(name)) or 0) for name in (*OF_KIND, *OF_MACHINE)}
        choices = {name: self.sources.choices.get(name) for name in ("matrix_precision", "fp8_scaling", "adapters")}
        precision = choices["matrix_precision"] or "bf16"
        return Circumstances(
            networks=networks(*(number[name] for name in OF_KIND[1:])),
            layers=number[OF_KIND[0]],
            adapters=choices["adapters"] not in (None, "none"),
            precision="mxfp8" if (precision, choices["fp8_scaling"]) == ("fp8", "blocks") else precision,
            machine=machine(*(number[name] for name in OF_MACHINE)),
        )

    def calculate_as_amped_did(self) -> None:
        """Gives a config in AMPeD's form the values with which a formula gives what AMPeD's formula gave."""
        for name, value, entry, notice in as_amped_calculates(self.sources) if self.config.old_style else ():
            self.sources.add(name, Given(read_value(self.catalogue[name], value), value, entry))
            self.notices.append(notice)

    def read_kernel_table(self) -> None:
        """Reads the kernels that were measured on the accelerator, if a table of measured kernels is given."""
        table, row = self.sources.given.get(MEASURED), self.sources.rows.get(ACCELERATOR)
        if not isinstance(table, KernelTable):
            return
        with collected(self.problems, MEASURED):
            measured = table.of(row, partial(self._is_named, row)) if row else table
            self.sources.given[MEASURED] = measured
            if not measured.kernels:
                of = row.name if row else "the accelerator, which has no name"
                self.notices.append(f"{table} has no kernel of {of} that an estimate has: all times are by law")

    def _is_named(self, row: Row, name: str) -> bool:
        """Whether a name, or an alias, is that of an accelerator's row."""
        return self.tables.has(ACCELERATORS, name) and self.tables.row(ACCELERATORS, name).name == row.name

    def scale_to_the_node(self) -> None:
        """Scales a system's fast domain, cards and host to a node with another number of accelerators."""
        row, node = self.sources.rows.get(SYSTEM), self.sources.given.get(NODE)
        of_row = row.columns.get(NODE) if row else None
        if row is None or not isinstance(of_row, int) or not isinstance(node, float) or node == of_row:
            return
        scaled, why = [], f"for {node:g} of {of_row:g} accelerators of a node"
        for name in (DOMAIN, *OF_A_NODE):
            origin = self.sources.origins.get(name)
            if isinstance(origin, LookedUp) and origin.row is row and isinstance(origin.value, float):
                value = _domain(origin.value, of_row, node) if name == DOMAIN else origin.value * node / of_row
                if value != origin.value:
                    self.sources.add(name, origin.instead(value, why))
                    scaled.append(name)
        if scaled:
            self.notices.append(f"system '{row.name}' has {of_row} accelerators per node, and this one "
                                f"{node:g}: {', '.join(scaled)} scaled accordingly")  # fmt: skip


def _kept(row: Row) -> str:
    """The end of a notice: how many columns a row took from the row that it extends; empty if it extends none."""
    count = len(row.inherited)
    return f"; {count} columns that it does not have are those of '{row.ancestors[0]}'" if row.ancestors else ""


def _named(row: object) -> str | Mapping[str, Any]:
    """The name of a row as text; a row that is given as a mapping, unchanged."""
    return row if isinstance(row, Mapping) else str(row)


def _domain(domain: float, of_row: int, node: float) -> float:
    """The size of the fast domain if a node has `node` accelerators instead of the `of_row` of the system's row.

    A domain that was the row's whole node is the whole node; a domain of several nodes stays.
    """
    return node if domain == of_row else min(domain, node) if domain < of_row else domain


def _of_kin(kernels: Row, kin: Kin, column: str) -> LookedUp:
    """A coefficient that an accelerator takes from its kin, with its origin: the kin's row if it is the kin's value itself."""
    value = of_kin(kernels, kin, column)
    row = kernels if column in TIED else kin.kernels
    return LookedUp(value, f"{value:.3g}, {kin.text_of(column)}", row, column)


def _in_bytes(written: object) -> bool:
    """Whether a written value has a unit in bytes."""
    return isinstance(written, str) and ("B" in written or "byte" in written)


def _looked_up(quantity: Quantity, row: Row, column: str, where: str = "") -> LookedUp:
    """The value of a column of a row, with its origin.

    Args:
        quantity: the quantity that gets the value.
        row: the row.
        column: the name of the column.
        where: the path in the config, if the config names the column; problems then name it, too.

    Raises:
        TableError: for a wrong value.
    """
    written = row.column(column)
    try:
        return LookedUp(read_value(quantity, written), written, row, column)
    except AmpedError as error:
        cell = f"{row.table}, row '{row.name}', column '{column}'"
        problems = [Problem(f"{cell}: {p.what}" if where else p.what, where or cell, p.advice) for p in error.problems]
        raise TableError(problems, file=row.file) from None


def _without_unit(name: str, written: object, unit: str, where: str) -> Iterator[Problem]:
    """A problem if a number of a machine has no unit and is too small for the canonical one: another unit is meant."""
    with suppress(ValueError, TypeError):
        if name.endswith(OF_MACHINES) and unit in COARSE and 0 < float(str(written)) < LEAST_COARSE:
            advice = f'write the unit: {name}="{written} {COARSE[unit]}", or "{written} {unit}" if so little is meant'
            yield Problem(f"{written} without a unit is {written} {unit}", where, advice)
