"""What becomes of a row: parameters by amped's names, and what was assumed where the row says nothing."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any


@dataclass
class Translation:
    """The parameters of one row.

    Attributes:
        values: by canonical name, also of parameters that amped may not have.
        accelerator, system, software: rows of lookup tables.
        assumed: for each parameter that the row does not say, its value and whose default it is.
        settled: those of them that follow from what it does say, so that a tuned recipe may not change them.
        expected: quantities that follow from the config.
        offers: what a tuned recipe of its framework may switch on.
    """

    accelerator: str = ""
    system: str = ""
    software: str = ""
    values: dict[str, Any] = field(default_factory=dict)
    assumed: dict[str, str] = field(default_factory=dict)
    settled: set[str] = field(default_factory=set)
    expected: dict[str, float] = field(default_factory=dict)
    offers: tuple[str, ...] = ()

    def assume(self, name: str, value: Any, whose: str) -> None:
        """Takes a value that the row does not say."""
        self.values[name] = value
        self.assumed[name] = f"{name} = {_shown(value)} ({whose})"

    def settle(self, name: str, value: Any, whose: str) -> None:
        """Takes a value that follows from what the row says."""
        self.assume(name, value, whose)
        self.settled.add(name)


def _shown(value: Any) -> str:
    return f"{value:g}" if isinstance(value, float) else str(value)
