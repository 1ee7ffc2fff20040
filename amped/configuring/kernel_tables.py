"""A table of measured kernels that the user names: a text, and the kernels of the accelerator that it holds."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from amped.base.errors import ConfigError, quoted
from amped.base.files import exists
from amped.base.units import parse
from amped.tables.tables import Row

if TYPE_CHECKING:
    from amped.theory.nouns.records import TimedKernels

NAME = "measured_kernel_table"


class KernelTable(str):
    """The path of a table of measured kernels, with the kernels of one accelerator; none before the accelerator is known.

    Two tables are equal only if they have the same path and the kernels of the same accelerator.
    """

    accelerator: str = ""
    kernels: tuple[TimedKernels, ...] = ()

    def of(self, row: Row, is_accelerator: Callable[[str], bool]) -> KernelTable:
        """A copy of this table with the kernels of an accelerator.

        Args:
            row: the accelerator's row.
            is_accelerator: tells whether a name in the table means this accelerator.

        Raises:
            FileError: if the table cannot be read.
        """
        from amped.measured_kernels.timed import timed_kernels

        columns = {"number_of_cores": "count", "frequency": "Hz", "l2_cache": "byte", "memory_bandwidth": "byte/s"}
        cores, frequency, cache, bandwidth = (
            parse(row.columns.get(name) or 0.0, unit) for name, unit in columns.items()
        )
        table = KernelTable(self)
        table.accelerator = row.name
        table.kernels = timed_kernels(
            Path(self), is_accelerator, cores or 1.0, frequency or float("inf"), cache, bandwidth
        )
        return table

    def __eq__(self, other: object) -> bool:
        same = isinstance(other, KernelTable) and self.accelerator == other.accelerator
        return same and str(self) == str(other)

    def __ne__(self, other: object) -> bool:  # else that of texts
        return not self == other

    def __hash__(self) -> int:
        return hash((str(self), self.accelerator))


def read_kernel_table(name: str, written: object) -> KernelTable:
    """The table, still without kernels, at the path that a user wrote for the parameter `name`.

    Raises:
        ConfigError: for what is no path of a file or folder.
    """
    if not isinstance(written, str | Path) or not str(written).strip() or not exists(Path(written)):
        raise ConfigError(f"there is no file or folder {quoted(written)}",
                          f"'{name}' is the path of a table of measured kernels, or of a folder of such tables")  # fmt: skip
    return KernelTable(written)
