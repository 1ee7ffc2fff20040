"""What a network or a training has and amped does not model: how it is written in a config, and read from it.

An importer writes an entry for each such thing. It says which modeled part stands in its place, and how large the thing
itself is at most; an estimate makes bounds on time and memory of both (`estimation/not_modeled.py`).
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import asdict, fields
from typing import Any

from amped.base.errors import ConfigError, Problem, did_you_mean, quoted
from amped.base.record import dataclass

KEY, ANYWAY = "not_modeled", "anyway"
# What an entry may touch: parts of a layer that are modeled, and that stand in the place of something else.
TOUCHED = ("attention_core", "attention", "dense_feedforward", "mixture", "layer")
SIZES = ("layers", "parameters", "products_of_a_token", "products_of_a_pair", "values_of_a_token")


@dataclass(frozen=True)
class NotModeled:
    """One thing that is not modeled.

    Attributes:
        what: it in words, with the key that says it.
        touches: the part of a layer that is counted in its place; empty if nothing is.
        layers: in how many layers that part is counted in its place.
        parameters: its own parameters in the whole network, at most.
        products_of_a_token: its multiply-accumulates for a token in a forward pass, in the whole network, at most.
        products_of_a_pair: the same for each pair of a token and a token of its sequence.
        values_of_a_token: numbers that it keeps of a token for the backward pass, in the whole network, at most.
    """

    what: str
    touches: str = ""
    layers: float = 0.0
    parameters: float = 0.0
    products_of_a_token: float = 0.0
    products_of_a_pair: float = 0.0
    values_of_a_token: float = 0.0

    @property
    def is_bounded(self) -> bool:
        """Whether anything is known of what it costs."""
        return bool(self.touches) or any(getattr(self, name) for name in SIZES)

    def written(self) -> dict[str, Any]:
        """The entry as a config has it, without what is zero."""
        return {name: value for name, value in asdict(self).items() if value}


def entries(written: Iterable[Mapping[str, Any]]) -> tuple[NotModeled, ...]:
    """The entries of a config.

    Raises:
        ConfigError: with each unknown name and wrong value, and its JSON path.
    """
    every = list(written)
    problems = [problem for place, entry in enumerate(every) for problem in _problems(entry, f"{KEY}[{place}]")]
    if problems:
        raise ConfigError(problems)
    return tuple(NotModeled(**entry) for entry in every)


def _problems(entry: Mapping[str, Any], path: str) -> Iterator[Problem]:
    names = [field.name for field in fields(NotModeled)]
    for name in entry.keys() - {*names}:
        yield Problem(f"unknown key {quoted(name)}", path, did_you_mean(name, names) or f"there are {', '.join(names)}")
    if not isinstance(entry.get("what"), str):
        yield Problem("does not say what is not modeled", f"{path}.what", "a text")
    if entry.get("touches", "") not in ("", *TOUCHED):
        yield Problem(f"{quoted(entry['touches'])} is no part", f"{path}.touches", f"one of {', '.join(TOUCHED)}")
    for name in SIZES:
        size = entry.get(name, 0)
        if isinstance(size, bool) or not isinstance(size, int | float) or not 0 <= size < math.inf:
            yield Problem(f"{quoted(size)} is no size", f"{path}.{name}", "a number that is not below 0")


def unbounded(every: Iterable[NotModeled]) -> Iterator[Problem]:
    """A problem for each entry of which nothing is known but that it is there."""
    for entry in every:
        if not entry.is_bounded:
            yield Problem(
                f"{entry.what}: not modeled, and amped knows no bound on what it costs",
                "",
                "--anyway estimates without it",
            )
