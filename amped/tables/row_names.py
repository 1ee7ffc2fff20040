"""Names by which other tools and hubs call what a row of a lookup table describes."""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterable, Iterator, Sequence

from amped.base.errors import plain
from amped.tables.table_files import MODELS, SOFTWARE

# What follows the name of a network in the name of its checkpoint, and changes no size; of numbered releases the first one
# (a later one that has other sizes is a row of its own).
CHECKPOINTS = frozenset(("instruct", "thinking", "base", "chat", "hf", "it", "pt", "bf16", "fp8", "v0.1"))
# The date of a release, as month and day or as year and month: the network is the same.
DATE = re.compile(r"(0[1-9]|1[0-2])([0-2]\d|3[01])|2\d(0[1-9]|1[0-2])")
# The size of what one token meets of a mixture, at the end of its name: "-A22B". People leave it out.
ACTIVE_SIZE = re.compile(r"[ -]A\d+(\.\d+)?B$", re.IGNORECASE)
# A program with the number of its release.
RELEASE = re.compile(r"(.*\S)[ -]v?\d+(?:\.\d+)+")

# Words of the names of software that tell nothing about what it does; and how alike two names are of which one is a typing error.
EMPTY_WORDS = frozenset(("with", "and", "internal", "framework", "training", "trainer", "our", "compiled", "lm", "llm"))
TYPING_ERROR = 0.85


def other_names(table: str, name: str) -> Iterator[str]:
    """Further names under which a table may have the row called `name`, the nearest first.

    A hub's id of a checkpoint is shortened to the name of the network, and a release of software to its program.
    """
    if table == MODELS:
        yield from _names_of_checkpoint(name)
    elif table == SOFTWARE and (release := RELEASE.fullmatch(name)):
        yield release[1]


def without_owner(name: str) -> str:
    """The last part of a hub's id: `Meta-Llama-3-8B` for `meta-llama/Meta-Llama-3-8B`."""
    return name.rpartition("/")[2]


def _names_of_checkpoint(name: str) -> Iterator[str]:
    """Shorter and shorter names for a hub's id of a checkpoint.

    First the owner is left out, then words such as "instruct" at the end and everywhere, then dates, then the owner's name.
    """
    owner, words = name.rpartition("/")[0].casefold().split("-"), without_owner(name).split("-")
    network_words = [words[0], *(word for word in words[1:] if word.casefold() not in CHECKPOINTS)]
    undated_words = [network_words[0], *(word for word in network_words[1:] if not DATE.fullmatch(word))]
    yield from map("-".join, (words, *_shortened(words), network_words, undated_words))
    if len(undated_words) > 1 and undated_words[0].casefold() in owner:
        yield "-".join(undated_words[1:])


def _shortened(words: list[str]) -> Iterator[list[str]]:
    """The words without the last one, again and again as long as the last one only tells checkpoints apart."""
    while words[1:] and words[-1].casefold() in CHECKPOINTS:
        words = words[:-1]
        yield words


def mixture_of_size(name: str, names_of_rows: Iterable[tuple[str, Sequence[str]]]) -> str | None:
    """The one mixture that has a name when the size of its active parameters is left out; None for no or several mixtures.

    Args:
        name: a name that no row has, as "Qwen3 235B".
        names_of_rows: each row with its name and aliases.
    """
    rows = {row for row, names in names_of_rows for other in names if plain(ACTIVE_SIZE.sub("", other)) == plain(name)}
    return rows.pop() if len(rows) == 1 else None


def nearest_in_words(name: str, names_of_rows: Sequence[tuple[str, Sequence[str]]]) -> str | None:
    """The row of software whose name or alias shares most words with a name; None if none does, or for a typing error.

    Of rows that share as many words, the one with the fewest other words is taken, then the first one. Numbers of releases do not
    count: FSDP1 and FSDP2 are one word.

    Args:
        name: a name that no row has.
        names_of_rows: each row with its name and aliases, the newest first.
    """
    asked, best, most = _words_of_software(name), None, (0, 0)
    for row, names in names_of_rows:
        for other in names:
            words = _words_of_software(other)
            if words - asked and difflib.SequenceMatcher(None, plain(name), plain(other)).ratio() > TYPING_ERROR:
                return None
            if asked & words and (len(asked & words), -len(words - asked)) > most:
                best, most = row, (len(asked & words), -len(words - asked))
    return best


def _words_of_software(name: str) -> frozenset[str]:
    """The words of a name that tell what software does, without case and numbers of releases."""
    words = (re.sub(r"[\d.]+$", "", word.casefold()) for word in re.split(r"[^A-Za-z0-9.]+", name))
    return frozenset(words) - EMPTY_WORDS - {""}
