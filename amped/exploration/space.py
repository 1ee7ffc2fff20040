"""The valid mappings of a model onto a machine: all placements of data, tensor and pipeline degrees, and micro-batches.

Valid means that degrees multiply to the machine and that batches divide; other rules are masks of the evaluation.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from itertools import product
from math import gcd, isqrt

import numpy as np

from amped.errors import MappingError
from amped.evaluate import Array

PLACED = ("data", "tensor", "pipeline")
PARTS = tuple(f"{place}_node_{kind}_parallel_degree" for kind in PLACED for place in ("intra", "inter"))
JOINT = (*PARTS, "microbatch_size", "batch_size")


@dataclass(frozen=True)
class Machine:
    """What the mappings must fill: accelerators in fast domains, and what other degrees have taken already."""

    accelerators: int
    domain: int
    context_degree: int
    intra_context_degree: int


def mappings(machine: Machine, batch_sizes: tuple[int, ...]) -> Iterator[dict[str, Array]]:
    """Columns of valid tuples, a few hundred thousand rows at most at a time.

    Raises:
        MappingError: if the accelerators cannot be split as asked.
    """
    inside, across = _places(machine)
    for batch in batch_sizes:
        for parts in product(_splits(inside), _splits(across)):
            yield from _microbatches(parts[0], parts[1], batch)


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


def _microbatches(inside: tuple[int, ...], across: tuple[int, ...], batch: int) -> Iterator[dict[str, Array]]:
    """One placement with each micro-batch size that divides a replica's share of the batch."""
    replicas = inside[0] * across[0]
    if batch % replicas:
        return
    share = batch // replicas
    sizes = np.array(_divisors(share), dtype=np.float64)
    parts = [value for pair in zip(inside, across, strict=True) for value in pair]
    columns = {name: np.full(len(sizes), float(value)) for name, value in zip(PARTS, parts, strict=True)}
    yield columns | {"microbatch_size": sizes, "batch_size": np.full(len(sizes), float(batch))}


def blocks(columns: Iterator[dict[str, Array]], rows: int) -> Iterator[dict[str, Array]]:
    """The same rows, in order, in blocks of at least `rows` (the last may be shorter)."""
    held: list[dict[str, Array]] = []
    count = 0
    for some in columns:
        held.append(some)
        count += len(some["batch_size"])
        if count >= rows:
            yield {name: np.concatenate([h[name] for h in held]) for name in JOINT}
            held, count = [], 0
    if held:
        yield {name: np.concatenate([h[name] for h in held]) for name in JOINT}
