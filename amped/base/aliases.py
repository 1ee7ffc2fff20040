"""Other names for one thing, which are replaced when they are read; inside amped there is one name."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import Any

from amped.base.files import shipped_json


@dataclass(frozen=True, eq=False)
class Aliases:
    """The names that are read as other names.

    Attributes:
        common: other tools' spellings.
        former: names that amped had before; they are read as the new names, and the user is told once.
        records: quantities that amped had before, and the records or the quantity that replace them.
        words: kinds and labels that outputs had before, and their new names.
        renamed: AMPeD's older names, which are read as the new ones.
        equal_to: AMPeD's older names, which are accepted if they have the value of the other name.
        retired: AMPeD's older names that are accepted and ignored.
    """

    common: dict[str, str]
    former: dict[str, str]
    words: dict[str, str]
    records: dict[str, str]
    renamed: dict[str, str]
    equal_to: dict[str, str]
    retired: frozenset[str]

    def canonical(self, name: str) -> str:
        """The name that amped uses."""
        return self._canonical.get(name, name)

    @cached_property
    def _canonical(self) -> dict[str, str]:
        return self.equal_to | self.renamed | self.former | self.common

    def is_old(self, name: str) -> bool:
        """Whether AMPeD's older configs use this name, and ours do not."""
        return name in self.renamed or name in self.equal_to or name in self.retired

    def names(self) -> list[str]:
        """All names that are accepted besides the canonical ones."""
        return [*self.common, *self.former, *self.renamed, *self.equal_to, *sorted(self.retired)]

    def suggested(self) -> list[str]:
        """The accepted names that may be suggested to a user: all but the former ones."""
        return [name for name in self.names() if name not in self.former]

    def told(self, names: Iterable[str]) -> list[str]:
        """What to tell the user once about former names among the names that were written."""
        return [f"'{name}' is called {self.former[name]} now" for name in dict.fromkeys(names) if name in self.former]

    def before(self, data: Any) -> Any:
        """Data with the names that amped had before, for its keys and texts."""
        if isinstance(data, Mapping):
            return {self.before(key): self.before(value) for key, value in data.items()}
        if isinstance(data, list | tuple):
            return [self.before(each) for each in data]
        return self._earlier.get(data, data) if isinstance(data, str) else data

    @cached_property
    def _earlier(self) -> dict[str, str]:
        return {now: name for name, now in (self.words | self.former).items()}


@lru_cache(maxsize=1)
def aliases() -> Aliases:
    """The shipped aliases."""
    common, older, former = (
        shipped_json("schema", name) for name in ("common_aliases.json", "amped_aliases.json", "former_names.json")
    )
    ours = (former["names"], former["words"], former["records"])
    return Aliases(common, *ours, older["renamed"], older["equal_to"], frozenset(older["retired"]))
