"""Prices as a market: who rents which accelerator, where, on which term, at which date.

A list of prices is a file `prices.csv` with one price a line, in USD for an hour of one accelerator. The user's lists are added to the
shipped one: a file of that name in a folder of `--lookup-tables`.
"""

from __future__ import annotations

import csv
import datetime as dt
import io
import os
import statistics
import time
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from pathlib import Path

from amped.base.errors import ConfigError, Problem, TableError, did_you_mean, plain, quoted
from amped.base.files import is_file, read_text, shipped_text
from amped.tables.grids import GRID
from amped.tables.table_files import PRICES

FILE, FOLDER = PRICES, "lookup_tables"
CLOUD, REGION, TERM = "cloud", "region", "term"
# What asks for a price in a list.
OF_PRICE = (CLOUD, REGION, TERM)
# What asks for rows of these lists and of grids, in a config and as options.
MARKET = (*OF_PRICE, GRID)
TERMS = ("on_demand", "spot", "capacity_block", "1y", "3y")
# The region of a provider that has one price for all of them.
EVERYWHERE = "all"
COLUMNS = ("provider", "row", "region", "term", "date", "low", "median", "high", "source", "unverified")
# A price that is older than this many days is told as old.
OLD_AFTER = 180
# The provider of a price that the user gives, and of one in a row that is in no list.
GIVEN, OWN_ROW = "given", "its row"


@dataclass(frozen=True)
class Price:
    """What an hour of one accelerator costs, in USD; columns as in the file.

    Attributes:
        row: the accelerator, or the system that has it.
        date: the year, month and day, or the year and month, when it was read; empty if nobody knows.
        unverified: the columns that no source confirms that somebody has read.
    """

    provider: str
    row: str = ""
    region: str = ""
    term: str = ""
    date: str = ""
    low: float = 0.0
    median: float = 0.0
    high: float = 0.0
    source: str = ""
    unverified: tuple[str, ...] = ()

    @property
    def of_list(self) -> tuple[str, str]:
        """The list that the price is of: prices of one list may be compared."""
        return self.provider, self.term

    @property
    def in_words(self) -> str:
        """Provider, term, region and date."""
        if self.provider in (GIVEN, OWN_ROW):
            return self.provider
        read = f"{self.date}{' (unverified)' if 'date' in self.unverified else ''}" if self.date else "date unknown"
        region = "" if self.region in (EVERYWHERE, "unknown") else f" {self.region}"
        return f"{self.provider} {self.term.replace('_', ' ')}{region}, {read}"

    def to_dict(self, now: dt.date) -> dict[str, str | float | bool]:
        """The price as plain data, in USD for an hour of one accelerator; `now` is the date of the run."""
        names = ("provider", "region", "term", "date", "source", "low", "median", "high")
        cells = {f"price_{name}": getattr(self, name) for name in names}
        return {**cells, "price_unverified": ", ".join(self.unverified), "price_is_old": self.is_old(now)}

    def is_old(self, now: dt.date) -> bool:
        """Whether the price is older than `OLD_AFTER` days, or nobody knows how old it is; one without a list is never."""
        if self.provider in (GIVEN, OWN_ROW):
            return False
        year, month, day = (*map(int, self.date.split("-") if self.date else (1, 1, 1)), 1)[:3]
        return (now - dt.date(year, month, day)).days > OLD_AFTER


def today() -> dt.date:
    """The date of the run; the one of SOURCE_DATE_EPOCH if that is set, as for builds that repeat."""
    epoch = os.environ.get("SOURCE_DATE_EPOCH", "")
    seconds = int(epoch) if epoch.isdigit() else time.time()
    return dt.datetime.fromtimestamp(seconds, dt.UTC).date()


def prices(folders: Iterable[Path] = ()) -> tuple[Price, ...]:
    """The shipped prices, and those in the user's folders.

    Raises:
        TableError: for a user's file that is no list of prices.
    """
    files = [folder / FILE for folder in folders if is_file(folder / FILE)]
    return (*_shipped(), *(price for file in files for price in read_prices(read_text(file), str(file))))


@lru_cache(maxsize=1)
def _shipped() -> tuple[Price, ...]:
    """The prices that come with amped."""
    return read_prices(shipped_text(FOLDER, FILE), FILE)


def read_prices(text: str, file: str) -> tuple[Price, ...]:
    """The prices in the text of a file.

    Raises:
        TableError: if a column is missing, or with every line that is no price.
    """
    reader = csv.DictReader(io.StringIO(text, newline=""))
    if missing := [name for name in COLUMNS[:-1] if name not in (reader.fieldnames or ())]:
        raise TableError(f"has no column {', '.join(missing)}", f"its columns are {', '.join(COLUMNS)}", file)
    read: list[Price] = []
    problems: list[Problem] = []
    for number, cells in enumerate(reader, 2):
        try:
            read.append(_price(cells))
        except (ValueError, TypeError, AttributeError) as error:
            what = f"is no price: {error}"
            problems.append(Problem(what, f"line {number}", "prices are numbers in USD an hour; a date is 2026-06-30"))
    if problems:
        raise TableError(problems, file=file)
    return tuple(read)


def _price(cells: dict[str, str]) -> Price:
    """The price in the cells of one line.

    Raises:
        ValueError, TypeError, AttributeError: for a cell that is none of its column.
    """
    texts = {name: (cells.get(name) or "").strip() for name in COLUMNS}
    low, median, high = (float(texts[name]) for name in ("low", "median", "high"))
    if not 0 < low <= median <= high < float("inf"):
        raise ValueError(f"low {low:g}, median {median:g} and high {high:g} do not ascend from above 0")
    if texts["date"]:
        dt.date.fromisoformat(texts["date"] if len(texts["date"]) > 7 else f"{texts['date']}-01")
    return Price(
        texts["provider"], texts["row"], texts["region"], texts["term"], texts["date"], low, median, high,
        texts["source"], tuple(texts["unverified"].split()),
    )  # fmt: skip


def priced_rows(market: Sequence[Price], provider: str, term: str | None = None) -> dict[str, str]:
    """The rows that one provider has a price for, each with the source of the price, which may name the shape of the machine.

    Args:
        market: all prices.
        provider: who rents them.
        term: one of `TERMS`; on demand without it.
    """
    return {p.row: p.source for p in of_provider(market, provider) if p.term == (term or TERMS[0])}


def price_of(
    market: Sequence[Price], rows: Collection[str], provider: str, region: str | None = None, term: str | None = None
) -> Price | None:
    """The newest price of one provider for an accelerator; None if the provider has none.

    Several regions make one price: their lowest, their median and their highest.

    Args:
        market: all prices.
        rows: the names of the accelerator, and of the system that has it.
        provider: who rents it.
        region: where; all regions without it.
        term: one of `TERMS`; on demand without it.

    Raises:
        ConfigError: for a provider, region or term that no list has.
    """
    term = term or TERMS[0]
    _refuse_unknown(market, provider, region, term)
    names = set(map(plain, rows))
    found = [p for p in of_provider(market, provider) if plain(p.row) in names and p.term == term]
    found = [p for p in found if region is None or p.region in (region, EVERYWHERE)]
    newest = [p for p in found if p.date == max(other.date for other in found)]
    if len(newest) < 2:
        return newest[0] if newest else None
    return replace(
        newest[0], region=f"{len(newest)} regions", low=min(p.low for p in newest), high=max(p.high for p in newest),
        median=statistics.median(p.median for p in newest), source="; ".join(dict.fromkeys(p.source for p in newest)),
        unverified=tuple(dict.fromkeys(column for p in newest for column in p.unverified)),
    )  # fmt: skip


def of_provider(market: Iterable[Price], provider: str) -> list[Price]:
    """The prices of one provider."""
    return [price for price in market if plain(price.provider) == plain(provider)]


def not_compared(priced: Iterable[tuple[str, Price]], market: Sequence[Price]) -> str:
    """Why the costs of some accelerators are not compared: their prices are of several lists. Empty if they are of one.

    Args:
        priced: the names of the accelerators, with their prices.
        market: all prices, for the providers that have all of these accelerators.
    """
    lists: dict[tuple[str, str], dict[str, None]] = {}
    for name, price in priced:
        lists.setdefault(price.of_list, {})[name] = None
    if len(lists) < 2:
        return ""
    names = {name for of_list in lists.values() for name in of_list}
    each = [f"{' '.join(of_list).replace('_', ' ').strip()} ({', '.join(names)})" for of_list, names in lists.items()]
    rows = [{price.row for price in of_provider(market, p) if price.term == TERMS[0]} for p in _providers(market)]
    whole = [p for p, of_provider_rows in zip(_providers(market), rows, strict=True) if names <= of_provider_rows]
    advice = (
        f"one list has all of them: --cloud {' or '.join(whole)}"
        if whole
        else "no list has all of them; --price gives one price"
    )
    return f"costs are not compared: their prices are of several lists, {', '.join(each)}; {advice}"


def _providers(market: Iterable[Price]) -> list[str]:
    """All providers, in alphabetical order."""
    return sorted({price.provider for price in market})


def price_in_row(market: Iterable[Price], row: str, median: float, basis: str, is_shipped: bool) -> Price:
    """The price of a list that an accelerator's row has; one of the row's own, if no list has it.

    Args:
        market: all prices.
        row: the name of the accelerator's row.
        median: the price in the row, in USD an hour.
        basis: what the row says of it.
        is_shipped: whether the price is that of a row that comes with amped.
    """
    listed = (p for p in market if p.row == row and p.term != "spot" and abs(p.median / median - 1) < 1e-6)
    own = Price(OWN_ROW, row, low=median, median=median, high=median, source=basis)
    return next(listed, own) if is_shipped else own


def _refuse_unknown(market: Sequence[Price], provider: str, region: str | None, term: str) -> None:
    """Refuses a provider or a term that no list has, and a region that the provider does not have.

    Raises:
        ConfigError: for each of these.
    """
    providers, offered = _providers(market), of_provider(market, provider)
    if not offered:
        advice = (
            f"{did_you_mean(provider, providers)} there are {', '.join(providers)}; else give the price: --price 2.5"
        )
        raise ConfigError([Problem(f"no prices of {quoted(provider)} are known", CLOUD, advice.strip())])
    if term not in TERMS:
        raise ConfigError([Problem(f"{quoted(term)} is no term of renting", TERM, f"write one of {', '.join(TERMS)}")])
    regions = sorted({price.region for price in offered})
    if region is not None and region not in regions and EVERYWHERE not in regions:
        what = f"no prices of {provider} in {quoted(region)} are known"
        raise ConfigError([Problem(what, REGION, f"its regions are {', '.join(regions)}")])
