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
    """The names under which a table may have a row that is called `name` elsewhere, the nearest first."""
    if table == MODELS:
        yield from _of_checkpoint(name)
    elif table == SOFTWARE and (release := RELEASE.fullmatch(name)):
        yield release[1]


def without_owner(name: str) -> str:
    """The last part of a hub's id: `Meta-Llama-3-8B` of `meta-llama/Meta-Llama-3-8B`."""
    return name.rpartition("/")[2]


def _of_checkpoint(name: str) -> Iterator[str]:
    """A hub's id without its owner; then without what tells checkpoints of one network apart; then without the owner's name."""
    owner, words = name.rpartition("/")[0].casefold().split("-"), without_owner(name).split("-")
    of_network = [words[0], *(word for word in words[1:] if word.casefold() not in CHECKPOINTS)]
    undated = [of_network[0], *(word for word in of_network[1:] if not DATE.fullmatch(word))]
    yield from map("-".join, (words, *_shortened(words), of_network, undated))
    if len(undated) > 1 and undated[0].casefold() in owner:
        yield "-".join(undated[1:])


def _shortened(words: list[str]) -> Iterator[list[str]]:
    """The words without the last one, as long as that is of a checkpoint."""
    while words[1:] and words[-1].casefold() in CHECKPOINTS:
        words = words[:-1]
        yield words
