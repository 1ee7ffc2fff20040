"""How words are compared, and what to type for a word that people have and amped has not."""

from __future__ import annotations

import json
from collections.abc import Mapping
from functools import lru_cache

from amped.base.record import dataclass


@dataclass(frozen=True)
class Answer:
    """What a word leads to.

    Attributes:
        word: the word as people write it.
        options: what to type, options or a whole command, as a shell reads it; empty if amped has nothing for the word.
        means: in words, what the options mean, or why amped has nothing.
    """

    word: str
    options: str
    means: str

    def __str__(self) -> str:
        return f"type {self.options}: {self.means}" if self.options else f"not modeled: {self.means}"


@lru_cache(maxsize=1)
def answers() -> Mapping[str, Answer]:
    """The answers of `words.json`, by their words as `plain` has them."""
    from importlib import resources  # slow to load

    text = resources.files("amped.schema").joinpath("words.json").read_text("utf-8")
    return {
        plain(word): Answer(word=word, options=line.get("type", ""), means=line.get("means") or line["lacks"])
        for line in json.loads(text)["answers"]
        for word in line["words"]
    }


def is_unicode(text: str) -> bool:
    """Whether a text can be written as UTF-8: it has no half of a UTF-16 pair without the other half."""
    return text.encode("utf-8", "replace") == text.encode("utf-8", "surrogatepass")


def plain(name: str) -> str:
    """A name without case, spaces, commas, hyphens and underscores; names of rows and choices are matched in this form."""
    return "".join(letter for letter in name.casefold() if letter not in " ,-_")
