"""The tables that all reports share: without lines, for people (bold heads, numbers to the right); and in Markdown."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from copy import copy
from dataclasses import replace
from functools import wraps
from typing import Any, ParamSpec

from rich.cells import cell_len
from rich.console import Console, ConsoleOptions, Group, RenderableType
from rich.table import Column, Table
from rich.text import Text

# A name, or another value, of at most so many characters stays on one line.
LONGEST_NAME, LONGEST_UNWRAPPED = 30, 16
# What a report is made of, and a cell of a table: a text, a text and its style, several of these on a line, or what rich draws.
Part = RenderableType | tuple[Any, ...]
P = ParamSpec("P")


def drawn(report: Callable[P, Iterable[Part]]) -> Callable[P, Group]:
    """A function that returns a report for rich, made from a function that yields the parts of the report."""

    @wraps(report)
    def group(*arguments: P.args, **options: P.kwargs) -> Group:
        return Group(*map(_drawn, report(*arguments, **options)))

    return group


def _drawn(part: Part) -> RenderableType:
    """A part as rich draws it; see `Part`."""
    if isinstance(part, tuple):
        return Text(*part) if isinstance(part[0], str) else Text.assemble(*part)
    return Text(part) if isinstance(part, str) else part


class Fitting(Table):
    """A table that cuts no cell: columns that have no room follow in further tables, which repeat the first column."""

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> Iterator[Any]:
        """The table, or the tables that hold its columns."""
        for columns in self._parts(options.max_width):
            part = self if len(columns) == len(self.columns) else self._with(columns)
            yield from Table.__rich_console__(part, console, options)

    def _parts(self, room: int) -> Iterator[list[Column]]:
        """The columns of each table, so that none is wider than `room`; the first column is in every table."""
        first, *others = self.columns
        gap = self.padding[1] + self.padding[3]
        part, remaining = [first], room - _least(first)
        for column in others:
            if len(part) > 1 and _least(column) + gap > remaining:
                yield part
                part, remaining = [first], room - _least(first)
            part.append(column)
            remaining -= _least(column) + gap
        yield part

    def _with(self, columns: Sequence[Column]) -> Table:
        """A copy of the table with only these columns."""
        part = copy(self)
        part.columns = [replace(column, _index=place) for place, column in enumerate(columns)]
        return part


def _least(column: Column) -> int:
    """The least width of a column: that of its widest line, or of its longest word if the column may be wrapped."""
    texts = [str(column.header), str(column.footer), *map(str, column.cells)]
    pieces = [piece for text in texts for piece in (text.splitlines() if column.no_wrap else text.split())]
    return max((column.min_width or 0, *map(cell_len, pieces)))


def table(
    heads: Iterable[str],
    rows: Iterable[Sequence[Part]],
    text: Collection[str] = (),
    wrapped: Collection[str] = (),
    footers: Mapping[str, str] | None = None,
    gap: int = 2,
) -> Table:
    """A table of rows.

    Args:
        heads: the heads of the columns; the first column holds text.
        rows: the cells of each line.
        text: the heads of other columns that hold text, which is aligned to the left.
        wrapped: the heads of columns whose text may be wrapped where there is no room.
        footers: what stands below columns, by their heads.
        gap: the blanks between columns.
    """
    result = Fitting(
        box=None, pad_edge=False, padding=(0, gap - 1, 0, 1) if gap > 1 else (0, 1, 0, 0), show_footer=bool(footers)
    )
    for place, head in enumerate(heads):
        result.add_column(
            head,
            (footers or {}).get(head, ""),
            footer_style="bold",
            justify="left" if place == 0 or head in text else "right",
            overflow="fold" if head in wrapped else "ellipsis",
            no_wrap=head not in wrapped,
        )
    for row in rows:
        result.add_row(*map(_drawn, row))
    return result


def grid(rows: Iterable[Sequence[Part]], *columns: Column, gap: int = 2) -> Table:
    """Rows without heads, with a gap between columns; columns that are not named wrap their text."""
    result = Table.grid(*columns, padding=(0, gap))
    for row in rows:
        result.add_row(*map(_drawn, row))
    return result


def listed(lines: list[dict[str, str]]) -> Table:
    """A table of lines that have the same keys. Long values and very long names are wrapped, short values are not."""
    heads = [key.replace("_", " ") for key in lines[0]]
    longest = [max(len(value) for value in column) for column in zip(*(line.values() for line in lines), strict=True)]
    limits = [LONGEST_NAME, *(LONGEST_UNWRAPPED for _ in heads[1:])]
    wrapped_heads = [head for head, length, limit in zip(heads, longest, limits, strict=True) if length > limit]
    return table(heads, [[*line.values()] for line in lines], heads, wrapped_heads)


def markdown(heads: Sequence[str], rows: Iterable[Sequence[str]], number: str = "---") -> str:
    """A table in Markdown, with `number` as the rule below all heads but the first."""
    lines = (heads, ["---", *(number for _ in heads[1:])], *rows)
    return "\n".join(f"| {' | '.join(cells)} |" for cells in lines)
