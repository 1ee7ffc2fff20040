"""Other names for the same thing, read at the door; inside there is one name."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from importlib import resources

from amped.base.files import parse_json


@dataclass(frozen=True)
class Aliases:
    """The names that are read under another.

    Attributes:
        common: other tools' spellings.
        renamed: AMPeD's older names, read under the new one.
        equal_to: AMPeD's older names, accepted when they have the value of the other.
        retired: AMPeD's older names that are accepted and not used.
    """

    common: dict[str, str]
    renamed: dict[str, str]
    equal_to: dict[str, str]
    retired: frozenset[str]

    def canonical(self, name: str) -> str:
        """The name inside amped."""
        return self.common.get(name) or self.renamed.get(name) or self.equal_to.get(name) or name

    def is_old(self, name: str) -> bool:
        """Whether AMPeD's older configs use this name and ours do not."""
        return name in self.renamed or name in self.equal_to or name in self.retired

    def names(self) -> list[str]:
        """All names that are accepted beside the canonical ones."""
        return [*self.common, *self.renamed, *self.equal_to, *sorted(self.retired)]


@lru_cache(maxsize=1)
def aliases() -> Aliases:
    """The shipped aliases."""
    folder = resources.files("amped.schema")
    common = parse_json(folder.joinpath("common_aliases.json").read_text("utf-8"))
    older = parse_json(folder.joinpath("amped_aliases.json").read_text("utf-8"))
    return Aliases(common, older["renamed"], older["equal_to"], frozenset(older["retired"]))
