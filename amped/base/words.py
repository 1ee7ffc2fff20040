"""What to type for a word that people have and amped has not."""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache

from amped.base.files import shipped_json
from amped.base.record import dataclass


@dataclass(frozen=True)
class Answer:
    """What a word leads to.

    Attributes:
        options: what to type, options or a whole command, as a shell reads it; empty if amped has nothing for the word.
        means: in words, what the options mean, or why amped has nothing.
    """

    options: str
    means: str

    def __str__(self) -> str:
        return f"type {self.options}: {self.means}" if self.options else f"not modeled: {self.means}"


@lru_cache(maxsize=1)
def answers() -> Mapping[str, Answer]:
    """The answers of `words.json`, by their words without case, spaces and hyphens."""
    from amped.base.errors import plain

    return {
        plain(word): Answer(options=line.get("type", ""), means=line.get("means") or line["lacks"])
        for line in shipped_json("schema", "words.json")["answers"]
        for word in line["words"]
    }
