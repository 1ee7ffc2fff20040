"""What a network or a training has and amped does not model: how it is written in a config, and read from it.

An importer writes an entry for each such thing. It says which modeled part stands in its place, and how large the thing
itself is at most; an estimate makes bounds on time and memory of both (`estimation/not_modeled.py`).
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, field, fields
from typing import Any

from amped.base.errors import ConfigError, Problem, did_you_mean, quoted
from amped.base.record import dataclass
from amped.theory.language.catalogue import catalogue

KEY, ANYWAY = "not_modeled", "anyway"
# What an entry may touch: parts of a layer that are modeled, and that stand in the place of something else.
TOUCHED = (
    "attention_core", "attention", "dense_feedforward", "mixture", "shared_experts", "layer", "norms", "quantization",
)  # fmt: skip
SIZES = (
    "layers", "parameters", "products_of_a_token", "products_of_a_pair", "values_of_a_token", "bytes_of_an_accelerator",
)  # fmt: skip
# Shares of parts, by the names of the parts; parts of a step's time and of memory are quantities of these units. And the
# weights of an accelerator as they are before replicas share them out.
SHARES, UNITS, WHOLE_WEIGHTS = ("saves", "adds"), ("s", "byte"), "whole_weights"


@dataclass(frozen=True)
class NotModeled:
    """One part of a network or a training that is not modeled.

    Attributes:
        what: the part in words, with the key of the config that asks for it.
        touches: the part of a layer that is counted in its place; empty if nothing is.
        layers: in how many layers that part is counted in its place.
        parameters: its own parameters in the whole network, at most.
        products_of_a_token: its multiply-accumulates for a token in a forward pass, in the whole network, at most.
        products_of_a_pair: the same for each pair of a token and a token of its sequence.
        values_of_a_token: numbers that it keeps of a token for the backward pass, in the whole network, at most.
        bytes_of_an_accelerator: bytes that it takes of the memory of an accelerator, at most.
        saves: the share that it saves, at most, of each part that is counted: of a part of all layers (one that may be touched),
            of a step's time or of memory.
        adds: what it adds to each such part, at most, as a share of it.
    """

    what: str
    touches: str = ""
    layers: float = 0.0
    parameters: float = 0.0
    products_of_a_token: float = 0.0
    products_of_a_pair: float = 0.0
    values_of_a_token: float = 0.0
    bytes_of_an_accelerator: float = 0.0
    saves: Mapping[str, float] = field(default_factory=dict)
    adds: Mapping[str, float] = field(default_factory=dict)

    @property
    def is_bounded(self) -> bool:
        """Whether a bound on the cost of the part is known."""
        return bool(self.touches) or any(getattr(self, name) for name in (*SIZES, *SHARES))

    def written(self) -> dict[str, Any]:
        """The entry as a config has it, without what is zero."""
        return {name: value for name, value in asdict(self).items() if value}


def entries(written: Sequence[Mapping[str, Any]]) -> tuple[NotModeled, ...]:
    """The entries under `not_modeled` of a config.

    Raises:
        ConfigError: with each unknown name and wrong value, and its JSON path.
    """
    problems = [problem for place, entry in enumerate(written) for problem in _problems(entry, f"{KEY}[{place}]")]
    if problems:
        raise ConfigError(problems)
    return tuple(NotModeled(**entry) for entry in written)


def _problems(entry: Mapping[str, Any], path: str) -> Iterator[Problem]:
    """The problems of one entry, at its JSON path."""
    names = [f.name for f in fields(NotModeled)]
    for name in entry.keys() - {*names}:
        yield Problem(f"unknown key {quoted(name)}", path, did_you_mean(name, names) or f"there are {', '.join(names)}")
    if not isinstance(entry.get("what"), str):
        yield Problem("does not say what is not modeled", f"{path}.what", "a text")
    if entry.get("touches", "") not in ("", *TOUCHED):
        yield Problem(f"{quoted(entry['touches'])} is no part", f"{path}.touches", f"one of {', '.join(TOUCHED)}")
    for name in SIZES:
        yield from _no_size(entry.get(name, 0), f"{path}.{name}")
    for name in SHARES:
        yield from _no_shares(entry.get(name, {}), f"{path}.{name}")


def _no_size(size: object, path: str) -> Iterator[Problem]:
    """A problem if a value is no finite number of at least 0."""
    if isinstance(size, bool) or not isinstance(size, int | float) or not 0 <= size < math.inf:
        yield Problem(f"{quoted(size)} is no size", path, "a number that is not below 0")


def _no_shares(shares: object, path: str) -> Iterator[Problem]:
    """The problems of a value that should map names of parts to shares."""
    if not isinstance(shares, Mapping):
        yield Problem(f"{quoted(shares)} does not say shares of parts", path, "an object: parts with numbers")
        return
    for part, share in shares.items():
        if part not in (*TOUCHED, WHOLE_WEIGHTS) and not (part in catalogue() and catalogue()[part].mark.unit in UNITS):
            advice = f"one of {', '.join(TOUCHED)}, or a part of a step's time or of memory"
            yield Problem(f"{quoted(part)} is no part", path, advice)
        yield from _no_size(share, f"{path}.{part}")


def unbounded(entries: Iterable[NotModeled]) -> Iterator[Problem]:
    """A problem for each entry without a bound on its cost."""
    for entry in entries:
        if not entry.is_bounded:
            what = f"{entry.what}: not modeled, and amped knows no bound on what it costs"
            yield Problem(what, advice="--anyway estimates without it")
