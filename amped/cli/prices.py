"""`amped prices`: the lists of prices, and a public catalog as a list of one's own."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable
from dataclasses import astuple
from pathlib import Path
from typing import TYPE_CHECKING

from amped.base.errors import ConfigError
from amped.cli import options

if TYPE_CHECKING:
    from amped.tables.prices import Price


@options.with_options
def prices(
    source: Path | None = None,
    cloud: str | None = None,
    date: str | None = None,
    output: Path | None = None,
    lookup_tables: options.Folders = None,
) -> None:
    """Print the prices that amped knows, as CSV; or those of a public catalog, a vms.csv of the SkyPilot catalog.

    A file prices.csv in a folder of --lookup-tables, or in ./lookup_tables, is added to amped's own list: --from vms.csv --cloud nebius --date 2026-06-30 --output
    lookup_tables/prices.csv writes one.

    Example: amped prices --cloud oci

    Options:
        source --from FILE: A catalog; else the known prices.
        --cloud NAME: Whose prices.
        --date DAY: When the catalog was written: 2026-06-30.
        --output -o FILE: Write a new file.
    """
    from amped.tables.prices import of_provider
    from amped.tables.prices import prices as known

    if source is None:
        everything = known(options.user_tables(lookup_tables).folders)
        found = of_provider(everything, cloud) if cloud else [*everything]
    else:
        found = _of_catalog(source, cloud, date, lookup_tables)
    options.put("csv", str, lambda _: _as_csv(found), output)


def _of_catalog(source: Path, cloud: str | None, date: str | None, lookup_tables: options.Folders) -> list[Price]:
    """The prices of a catalog. Prints on stderr which accelerators have no row.

    Raises:
        ConfigError: if provider or date are missing.
    """
    import datetime as dt

    from amped.base.files import read_text
    from amped.tables.catalogs import prices_in

    if not cloud or not date:
        raise ConfigError(
            "a catalog does not say whose it is, and when it was written", "give --cloud NAME --date 2026-06-30"
        )
    try:
        dt.date.fromisoformat(date)
    except ValueError:
        raise ConfigError(f"--date {date!r} is no day", "write it as 2026-06-30") from None
    found, unknown = prices_in(read_text(source), str(source), cloud, date, options.user_tables(lookup_tables))
    options.tell_notices([f"no row has these accelerators: {', '.join(unknown)}"] if unknown else [])
    return found


def _as_csv(found: Iterable[Price]) -> str:
    """Prices as the text of a file."""
    from amped.tables.prices import COLUMNS

    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(COLUMNS)
    for price in found:
        *cells, unverified = astuple(price)
        writer.writerow([*(f"{cell:.6g}" if isinstance(cell, float) else cell for cell in cells), " ".join(unverified)])
    return text.getvalue()
