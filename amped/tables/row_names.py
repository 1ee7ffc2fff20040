"""Names by which other tools and hubs call what a row of a lookup table describes."""

from __future__ import annotations

import re
from collections.abc import Iterator

from amped.tables.table_files import MODELS, SOFTWARE

# What follows the name of a network in the name of its checkpoint, and changes no size; of numbered releases the first one
# (a later one that has other sizes is a row of its own).
CHECKPOINTS = frozenset(("instruct", "thinking", "base", "chat", "hf", "it", "pt", "bf16", "fp8", "v0.1"))
# The date of a release, as month and day or as year and month: the network is the same.
DATE = re.compile(r"(0[1-9]|1[0-2])([0-2]\d|3[01])|2\d(0[1-9]|1[0-2])")
# A program with the number of its release.
RELEASE = re.compile(r"(.*\S)[ -]v?\d+(?:\.\d+)+")


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
