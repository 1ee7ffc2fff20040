"""The tables that all reports share: without lines, for people (bold heads, numbers to the right); and in Markdown."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence

from rich.table import Table
from rich.text import Text

# A name, or another value, of at most so many characters stays on one line.
LONGEST_NAME, LONGEST_UNWRAPPED = 30, 16


def table(
    heads: Iterable[str],
    rows: Iterable[Sequence[str | Text]],
    text: Collection[str] = (),
    wrapped: Collection[str] = (),
) -> Table:
    """A table of rows.

    Args:
        heads: the heads of the columns; the first column holds text.
        rows: the cells of each line.
        text: the heads of other columns that hold text, which is aligned to the left.
        wrapped: the heads of columns whose text may be wrapped where there is no room.
    """
    made = Table(box=None, pad_edge=False, header_style="bold")
    for place, head in enumerate(heads):
        made.add_column(
            head,
            justify="left" if place == 0 or head in text else "right",
            overflow="fold" if head in wrapped else "ellipsis",
            no_wrap=head not in wrapped,
        )
    for row in rows:
        made.add_row(*row)
    return made


def listed(lines: list[dict[str, str]]) -> Table:
    """A table of lines that have the same keys. Long values are wrapped, and so are very long names; short values are not."""
    heads = [key.replace("_", " ") for key in lines[0]]
    longest = [max(len(value) for value in column) for column in zip(*(line.values() for line in lines), strict=True)]
    most = [LONGEST_NAME, *(LONGEST_UNWRAPPED for _ in heads[1:])]
    long = [head for head, length, limit in zip(heads, longest, most, strict=True) if length > limit]
    return table(heads, [[*line.values()] for line in lines], heads, long)


def markdown(heads: Sequence[str], rows: Iterable[Sequence[str]], number: str = "---") -> str:
    """A table in Markdown, with `number` as the rule below all heads but the first."""
    lines = (heads, ["---", *(number for _ in heads[1:])], *rows)
    return "\n".join(f"| {' | '.join(cells)} |" for cells in lines)
