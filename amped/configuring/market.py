"""The price of an accelerator: what the user gives, what a provider asks, or what the accelerator's row has; and the grid of its region."""

from __future__ import annotations

from collections.abc import Mapping

from amped.base.errors import ConfigError, Problem
from amped.base.plug_ins import CLOUD_VARIABLE, cloud_of_environment
from amped.base.units import parse
from amped.configuring.sources import Given, LookedUp, Sources
from amped.configuring.values import Value
from amped.tables.grids import GRID, VALUES, grid_of, grid_of_region, grids
from amped.tables.prices import CLOUD, FILE, GIVEN, OF_PRICE, REGION, Price, price_in_row, price_of, prices
from amped.tables.table_files import COMPANIONS, GRIDS
from amped.tables.tables import Row, Tables
from amped.theory.language.catalogue import catalogue
from amped.theory.language.quantity import ACCELERATOR, SYSTEM

PRICE, HOUR = "accelerator_price", 3600


def priced(sources: Sources, tables: Tables, config: Mapping[str, str], asked: Mapping[str, object]) -> None:
    """Takes the price of the provider that is named, and tells the sources which list it is of.

    Args:
        sources: all sources, with the price of the accelerator's row if it has one.
        tables: the lookup tables.
        config: provider, region and term as the config names them.
        asked: the same, as the user names them in addition.

    Raises:
        ConfigError: for a price and a provider, or a provider, region or term that no list has.
    """
    origin, standing = sources.origins.get(PRICE), cloud_of_environment()
    named = {name: text for name, text in _named(config, asked).items() if name in OF_PRICE}
    if standing and CLOUD not in named and not isinstance(origin, Given):
        named |= {CLOUD: standing}
        sources.notices.append(f"{CLOUD_VARIABLE} names whose prices are taken: {standing}")
    if named and CLOUD not in named:
        raise ConfigError(
            [Problem(f"{' and '.join(named)} is of a provider, and none is named", CLOUD, "give --cloud")]
        )
    if CLOUD in named and _replaces(sources, asked):
        try:
            _take_of_provider(sources, tables, named)
        except ConfigError as error:
            raise error if named[CLOUD] != standing else ConfigError(error.problems, file=CLOUD_VARIABLE) from None
    elif isinstance(origin, Given) and isinstance(origin.value, float):
        sources.price = _without_list(GIVEN, origin.value)
    elif isinstance(origin, LookedUp) and isinstance(origin.value, float):
        basis = str(origin.row.columns.get(COMPANIONS[PRICE][0]) or "")
        row, dollars = origin.row, origin.value * HOUR
        sources.price = price_in_row(prices(tables.folders), row.name, dollars, basis or row.file, _has_shipped(row))


def powered(sources: Sources, tables: Tables, config: Mapping[str, str], asked: Mapping[str, object]) -> None:
    """Takes what is known of the grid that is named, else of the provider's region; values that somebody gives are preferred.

    Raises:
        ConfigError: for a grid that no list has.
    """
    named = _named(config, asked)
    if GRID not in named and REGION not in named:
        return
    known = grids(tables.folders)
    found = grid_of(known, named[GRID]) if GRID in named else grid_of_region(known, named[REGION])
    if found is None:
        return
    sources.grid = found
    row = Row("grids", found.region, dict(found.values), GRIDS, is_a_file=True)
    for name, value in found.values.items():
        if name not in sources.named():
            text = f"{value:g} {VALUES[name]}".strip()
            sources.add(name, LookedUp(parse(text, catalogue()[name].mark.unit), text, row, name))


def _named(config: Mapping[str, str], asked: Mapping[str, object]) -> dict[str, str]:
    """What the config and the user name; the user's words replace those of the config."""
    return {name: str(value) for name, value in {**config, **asked}.items() if value is not None}


def _replaces(sources: Sources, asked: Mapping[str, object]) -> bool:
    """Whether the price of the named provider is taken: a price that the user gives is preferred to a config's provider.

    Raises:
        ConfigError: if the user gives both.
    """
    origin = sources.origins.get(PRICE)
    if not isinstance(origin, Given) and PRICE not in sources.sweeps:
        return True
    if CLOUD in asked and (not isinstance(origin, Given) or origin.where.startswith("--set")):
        raise ConfigError([Problem("a price and a provider are given", f"--{CLOUD}", "keep one: --price or --cloud")])
    if CLOUD not in asked:
        sources.notices.append(f"a price is given: {CLOUD} of the config changes nothing")
    return CLOUD in asked


def _take_of_provider(sources: Sources, tables: Tables, named: Mapping[str, str]) -> None:
    """Takes the provider's price instead of any other; no price if the provider has none for this accelerator."""
    market = prices(tables.folders)
    rows = [row for category in (SYSTEM, ACCELERATOR) if (row := sources.rows.get(category))]
    names = [name for row in rows for name in (row.name, *row.aliases)]
    found = price_of(market, names, *map(named.get, OF_PRICE))  # type: ignore[arg-type]
    for values in (sources.given, sources.origins, sources.calculated):
        values.pop(PRICE, None)
    sources.price = found
    if found is None:
        where = ", ".join(named.values())
        if rows:  # without a row, machines are swept
            sources.notices.append(f"no price of {rows[-1].name} is known at {where}: so no cost")
        return
    cells = {name: getattr(found, name) for name in ("low", "median", "high", "region", "term", "date")}
    row = Row("prices", f"{found.provider}, {found.row}", {**cells, "price_basis": found.source}, FILE, is_a_file=True)
    value: Value = found.median / HOUR
    sources.add(PRICE, LookedUp(value, f"{found.median:g} USD/hour", row, "median"))


def _without_list(provider: str, price: float) -> Price:
    """A price for a second that is of no list."""
    dollars = price * HOUR
    return Price(provider, low=dollars, median=dollars, high=dollars)


def _has_shipped(row: Row) -> bool:
    """Whether the price of a row is one that amped comes with: the row's own, or one that a correction of it inherits."""
    return row.is_shipped or PRICE in row.inherited
