"""Columns of a row that amped does not know: nothing would use their values, and nobody would notice."""

from __future__ import annotations

from collections.abc import Container, Iterator, Mapping
from functools import lru_cache

from amped.base.aliases import aliases
from amped.base.errors import Problem, did_you_mean, plain
from amped.base.files import shipped_json
from amped.tables.rows import Row
from amped.tables.table_schema import cell_of, columns
from amped.theory.language.catalogue import Catalogue
from amped.theory.language.doors import inside


def unknown_columns(row: Row, catalogue: Catalogue) -> Iterator[Problem]:
    """A problem for each column with a value that is no public quantity and no column of the row's table."""
    kinds, quantities = columns(row.table), {*catalogue} - catalogue.inside
    for column, value in row.columns.items():
        if value is not None and column in catalogue.inside:
            yield inside(column, catalogue, cell_of(row.table, row.name, column))
        elif value is not None and column not in quantities and column not in kinds and column not in aliases().retired:
            advice = meant(column, quantities | kinds.keys()) or did_you_mean(column, (*sorted(quantities), *kinds))
            yield Problem("is no column amped knows", cell_of(row.table, row.name, column), advice)


def meant(word: str, options: Container[str]) -> str:
    """The text "did you mean ...?" with those of `options` that people mean by a word, such as tdp; else an empty text."""
    names = [f"'{name}'" for name in _words().get(plain(word), ()) if name in options]
    return f"did you mean {' or '.join(names)}?" if names else ""


@lru_cache(maxsize=1)
def _words() -> Mapping[str, tuple[str, ...]]:
    """The names of the columns that each word may mean; the words are in the form of `plain`."""
    words = shipped_json("schema", "column_words.json")
    return {plain(word): tuple(names) for word, names in words.items()}
