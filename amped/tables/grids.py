"""Grids: the carbon dioxide, the overhead and the water of electricity, by the region of a provider and the zone of a grid.

The list is a file `grids.csv` with one region a line. Carbon dioxide (equivalent) is in g/kWh, the mean of a year over the electricity that
is consumed; water is in liters for a kWh of computers. The user's lists stand before the shipped one: a file of that name in a
folder of `--lookup-tables`.
"""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

from amped.base.errors import ConfigError, Problem, TableError, did_you_mean, quoted
from amped.base.files import is_file, read_text, shipped_text
from amped.tables.table_files import GRIDS

GRID = "grid"
# The parameters that a region gives, with their units in the file.
VALUES = {"carbon_intensity": "g/kWh", "power_usage_effectiveness": "", "water_usage_effectiveness": "L/kWh"}
COLUMNS = ("provider", "region", "zone", "year", *VALUES, "source", "unverified")


@dataclass(frozen=True)
class Grid:
    """A region of a provider with its grid; columns as in the file.

    Attributes:
        values: those of `VALUES` that are known.
        zone: the zone of Electricity Maps, such as DE or US-CAL-CISO.
        unverified: the columns that no source confirms.
    """

    provider: str
    region: str
    zone: str
    year: str
    values: dict[str, float]
    source: str
    unverified: tuple[str, ...] = ()

    @property
    def in_words(self) -> str:
        """The region and the year."""
        return f"{self.region} {self.year}{' (unverified)' if 'year' in self.unverified else ''}"

    def to_dict(self) -> dict[str, str]:
        """Which grid it is, as plain data."""
        return {
            "grid": self.region,
            "grid_year": self.year,
            "grid_source": self.source,
            "grid_unverified": ", ".join(self.unverified),
        }


def grids(folders: Iterable[Path] = ()) -> tuple[Grid, ...]:
    """The grids in the user's folders, and the shipped ones.

    Raises:
        TableError: for a user's file that is no list of grids.
    """
    files = [folder / GRIDS for folder in folders if is_file(folder / GRIDS)]
    return (*(grid for file in files for grid in read_grids(read_text(file), str(file))), *_shipped())


@lru_cache(maxsize=1)
def _shipped() -> tuple[Grid, ...]:
    """The grids that come with amped."""
    return read_grids(shipped_text("lookup_tables", GRIDS), GRIDS)


def read_grids(text: str, file: str) -> tuple[Grid, ...]:
    """The grids in the text of a file.

    Raises:
        TableError: if a column is missing, or with every line that has no number where one must be.
    """
    reader = csv.DictReader(io.StringIO(text, newline=""))
    if missing := [name for name in COLUMNS[:-1] if name not in (reader.fieldnames or ())]:
        raise TableError(f"has no column {', '.join(missing)}", f"its columns are {', '.join(COLUMNS)}", file)
    read: list[Grid] = []
    problems: list[Problem] = []
    for number, cells in enumerate(reader, 2):
        try:
            texts = {name: (cells.get(name) or "").strip() for name in COLUMNS}
            values = {name: float(texts[name]) for name in VALUES if texts[name]}
            if min(values.values(), default=0.0) < 0:
                raise ValueError("a number is below 0")
        except (ValueError, AttributeError) as error:
            problems.append(Problem(f"is no grid: {error}", f"line {number}", "carbon_intensity is a number in g/kWh"))
            continue
        provider, region, zone, year = (texts[name] for name in COLUMNS[:4])
        read.append(Grid(provider, region, zone, year, values, texts["source"], tuple(texts["unverified"].split())))
    if problems:
        raise TableError(problems, file=file)
    return tuple(read)


def grid_of(known: Sequence[Grid], name: str) -> Grid:
    """The grid of a region, or of a zone; the newest, if a zone has several. A zone says nothing of overhead and water.

    Raises:
        ConfigError: if no list has it.
    """
    if found := grid_of_region(known, name):
        return found
    of_zone = [grid for grid in known if grid.zone.casefold() == name.casefold() and "carbon_intensity" in grid.values]
    if not of_zone:
        advice = did_you_mean(name, sorted({text for grid in known for text in (grid.region, grid.zone)}))
        problem = f"no grid of {quoted(name)} is known"
        raise ConfigError([Problem(problem, GRID, f"{advice} `amped list grids` shows them".strip())])
    newest = max(of_zone, key=lambda grid: grid.year)
    values = {"carbon_intensity": newest.values["carbon_intensity"]}
    return Grid(newest.provider, newest.zone, newest.zone, newest.year, values, newest.source, newest.unverified)


def grid_of_region(known: Iterable[Grid], name: str) -> Grid | None:
    """The grid of a provider's region; None if no list has it."""
    return next((grid for grid in known if grid.region.casefold() == name.casefold()), None)
