"""The valid mappings of a model onto a machine: all placements of data, tensor and pipeline degrees, and micro-batches.

Valid means that degrees multiply to the machine and that batches divide; other rules are masks of the evaluation.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from math import gcd, isqrt

import numpy as np

from amped.errors import MappingError
from amped.evaluate import Array

PLACED = ("data", "tensor", "pipeline")
PARTS = tuple(f"{place}_node_{kind}_parallel_degree" for kind in PLACED for place in ("intra", "inter"))
WHOLES = tuple(f"{kind}_parallel_degree" for kind in PLACED)
JOINT = (*PARTS, "microbatch_size", "batch_size")
# The whole degrees lie beside their parts, so that what depends on a degree alone is computed once for each degree.
COLUMNS = (*JOINT, *WHOLES)


@dataclass(frozen=True)
class Machine:
    """What the mappings must fill: accelerators in fast domains, and what other degrees have taken already."""

    accelerators: int
    domain: int
    context_degree: int
    intra_context_degree: int


def mappings(machine: Machine, batch_sizes: tuple[int, ...]) -> Iterator[dict[str, Array]]:
    """Columns of valid tuples, all placements across nodes of one placement inside them at a time.

    Raises:
        MappingError: if the accelerators cannot be split as asked.
    """
    inside, across = _places(machine)
    outer = np.array(_splits(across), dtype=np.float64)
    for batch in batch_sizes:
        for inner in _splits(inside):
            yield from _microbatches(np.array(inner, dtype=np.float64), outer, batch)


def _places(machine: Machine) -> tuple[int, int]:
    """Accelerators inside and across fast domains that data, tensor and pipeline parallelism share out."""
    if machine.accelerators % machine.context_degree:
        raise MappingError(f"{machine.accelerators} accelerators do not divide by the context degree {machine.context_degree}",
                           "change --gpus or context_parallel_degree")  # fmt: skip
    filled = gcd(machine.accelerators, machine.domain)
    if filled % machine.intra_context_degree:
        raise MappingError(f"{filled} accelerators of a fast domain do not divide by the context degree inside it, "
                           f"{machine.intra_context_degree}", "change intra_node_context_parallel_degree")  # fmt: skip
    inside = filled // machine.intra_context_degree
    return inside, machine.accelerators // machine.context_degree // inside


def _splits(number: int) -> list[tuple[int, int, int]]:
    """All ordered ways to write a number as a product of three."""
    divisors = _divisors(number)
    return [(a, b, number // a // b) for a in divisors for b in divisors if (number // a) % b == 0]


@lru_cache(maxsize=4096)
def _divisors(number: int) -> tuple[int, ...]:
    """All divisors, the small ones first."""
    small = [d for d in range(1, isqrt(number) + 1) if number % d == 0]
    return tuple(dict.fromkeys([*small, *(number // d for d in reversed(small))]))


def _microbatches(inside: Array, across: Array, batch: int) -> Iterator[dict[str, Array]]:
    """One placement inside the node and all across, with each micro-batch size that divides a replica's share."""
    replicas = inside[0] * across[:, 0]
    across = across[np.mod(batch, replicas) == 0]
    if not len(across):
        return
    sizes = [_sizes(batch // int(replicas)) for replicas in inside[0] * across[:, 0]]
    counts = [len(each) for each in sizes]
    rows = sum(counts)
    spread = np.repeat(across, counts, axis=0)
    outer = list(np.ascontiguousarray(spread.T))
    parts = [column for value, own in zip(inside, outer, strict=True) for column in (np.full(rows, value), own)]
    wholes = [own * value for value, own in zip(inside, outer, strict=True)]
    columns = dict(zip((*PARTS, *WHOLES), (*parts, *wholes), strict=True))
    yield columns | {"microbatch_size": np.concatenate(sizes), "batch_size": np.full(rows, float(batch))}


@lru_cache(maxsize=4096)
def _sizes(share: int) -> Array:
    """The micro-batch sizes that divide a replica's share, as a column."""
    return np.array(_divisors(share), dtype=np.float64)


def blocks(columns: Iterator[dict[str, Array]], rows: int) -> Iterator[dict[str, Array]]:
    """The same rows, in order, in blocks of at least `rows` (the last may be shorter)."""
    held: list[dict[str, Array]] = []
    count = 0
    for some in columns:
        held.append(some)
        count += len(some["batch_size"])
        if count >= rows:
            yield {name: np.concatenate([h[name] for h in held]) for name in COLUMNS}
            held, count = [], 0
    if held:
        yield {name: np.concatenate([h[name] for h in held]) for name in COLUMNS}
