"""Where each value comes from: what the user wrote, a row of a lookup table, or a formula."""

from __future__ import annotations

from dataclasses import field, replace
from typing import Any

from amped.base.record import dataclass
from amped.configuring.kernel_tables import KernelTable
from amped.configuring.layout_text import Layout
from amped.configuring.not_modeled import NotModeled
from amped.configuring.values import Value
from amped.tables.grids import Grid
from amped.tables.prices import Price
from amped.tables.tables import Row

# Where a value comes from that nobody gave.
CHOSEN = "chosen by amped"


@dataclass(frozen=True, slots=True)
class Given:
    """A value that the user wrote."""

    value: Value
    written: object
    where: str


@dataclass(frozen=True, slots=True)
class LookedUp:
    """A value from a table row."""

    value: Value
    written: object
    row: Row
    column: str

    @property
    def where(self) -> str:
        """The row and its table, as text; the file, if no table has the row."""
        return self.row.file if self.row.is_a_file else f"{self.row.table}, row '{self.row.name}'"

    def instead(self, value: float, why: str) -> LookedUp:
        """A looked-up value with another value in its place, and the reason for it."""
        return replace(self, value=value, written=f"{self.written}, {value:g} {why}")


@dataclass(frozen=True, slots=True)
class Calculated:
    """A value that the user wants calculated, even if a row has it."""

    where: str


@dataclass
class Sources:
    """The sources of all values of a run, by name.

    Attributes:
        given: the numbers that are given or looked up.
        choices: the choices that are given or looked up. The text of a layout or of a table of kernels is in both.
        origins: for each given number and choice, where it comes from.
        calculated: names that must be calculated.
        sweeps: the values of each swept name.
        row_sweeps: the rows of each swept category.
        rows: the row of each category.
        notices: what the user should be told.
        not_modeled: what amped does not model of what is asked.
        price: the list that the price of an accelerator comes from; None if there is no price.
        grid: whose electricity is drawn; None if nobody says it.
        doubts: notices that hold only if the quantities of the named table are used.
    """

    given: dict[str, Any] = field(default_factory=dict)
    choices: dict[str, str] = field(default_factory=dict)
    origins: dict[str, Given | LookedUp] = field(default_factory=dict)
    calculated: dict[str, Calculated] = field(default_factory=dict)
    sweeps: dict[str, tuple[Value, ...]] = field(default_factory=dict)
    row_sweeps: dict[str, tuple[str, ...]] = field(default_factory=dict)
    rows: dict[str, Row] = field(default_factory=dict)
    notices: list[str] = field(default_factory=list)
    price: Price | None = None
    grid: Grid | None = None
    doubts: dict[str, str] = field(default_factory=dict)
    not_modeled: tuple[NotModeled, ...] = ()
    equals: dict[str, tuple[float, str]] = field(default_factory=dict)

    @property
    def preliminary(self) -> list[str]:
        """What to tell of the rows whose figures are not final."""
        return [row.preliminary for row in self.rows.values() if row.preliminary]

    def named(self) -> set[str]:
        """The names that are given, looked up, swept, or to be calculated."""
        return {*self.origins, *self.calculated, *self.sweeps}

    def add(self, name: str, origin: Given | LookedUp) -> None:
        """Adds a value with its origin."""
        self.origins[name] = origin
        if isinstance(origin.value, str):
            self.choices[name] = str(origin.value)
        if not isinstance(origin.value, str) or isinstance(origin.value, Layout | KernelTable):
            self.given[name] = origin.value
