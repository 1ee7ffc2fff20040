"""16 accelerators, two nodes of 8: a machine whose every mapping can be tried one by one."""

import math
from collections.abc import Iterator
from functools import cache
from itertools import product
from typing import Any

import amped
from amped.base.errors import MappingError
from amped.configuring.config import Config
from amped.exploration.answer import Exploration
from amped.exploration.search_space import PARTS

SMALL = {
    "neural_network_training_parameters": {"parameters": {
        "layers": {"value": 8}, "dimensionality": {"value": 2048}, "attention_heads": {"value": 16},
        "vocabulary_size": {"value": 32000}, "context": {"value": 1024}, "batch_size": {"value": 32},
        "tokens_to_train": {"value": "1 G"},
    }},
    "mapping_parameters": {"parameters": {"zero_stage": {"value": 1}}},
    "system_architecture_parameters": {
        "lookup_config": {"lookup_table_row": "DGX A100"},
        "parameters": {"number_of_accelerators": {"value": 16}},
    },
    "accelerator_architecture_parameters": {
        "lookup_config": {"lookup_table_row": "A100 SXM 80GB"},
        "parameters": {"memory_capacity": {"value": "2.2 GB"}},
    },
}  # fmt: skip
EVERYTHING = 100_000
# What the answer of `amped explore --json` has, in this order.
KEYS_OF_JSON = ["candidates", "feasible", "removed", "elapsed_time", "best", "ties", "held", "lacks_headroom"]
JOINT = (*PARTS, "microbatch_size", "batch_size")
SAME = ("training_time", "step_time", "memory_per_accelerator_bytes")
Row = dict[str, Any]


def divisors(number: int) -> list[int]:
    return [d for d in range(1, number + 1) if number % d == 0]


def six_degrees(accelerators: int, domain: int, filled: bool) -> Iterator[dict[str, Any]]:
    """All ways to write the machine as a product of six, `domain` or less of it inside the node."""
    for parts in product(divisors(accelerators), repeat=6):
        inside = parts[0] * parts[2] * parts[4]
        if math.prod(parts) == accelerators and (inside == domain if filled else inside <= domain):
            yield dict(zip(PARTS, map(float, parts), strict=True))


def one_by_one(
    batch: int, filled: bool = True, accelerators: int = 16, **values: Any
) -> tuple[int, list[amped.Estimate]]:
    """How many mappings are tried, and the estimates of those that keep every rule: no broadcasting, a plain loop."""
    tried, kept = 0, []
    for degrees in six_degrees(accelerators, 8, filled):
        replicas = int(degrees["intra_node_data_parallel_degree"] * degrees["inter_node_data_parallel_degree"])
        for size in divisors(batch // replicas) if batch % replicas == 0 else ():
            tried += 1
            try:
                kept.append(amped.estimate(read(), **degrees, **values, microbatch_size=size, batch_size=batch))
            except MappingError:
                continue
    return tried, kept


@cache
def read() -> Config:
    return amped.load_config(SMALL)


@cache
def tried() -> tuple[int, list[amped.Estimate]]:
    return one_by_one(32)


@cache
def explored() -> Exploration:
    return explore(SMALL, top=EVERYTHING)


def explore(config: object = "default", **options: Any) -> Exploration:
    """Degrees, every placement of them, and the micro-batch; all else as the config has it."""
    return amped.explore(config, **{"space": "degrees", **options})  # type: ignore[arg-type]


def estimate_of(row: Row, *swept: str) -> amped.Estimate:
    return amped.estimate(read(), **{name: row[name] for name in (*JOINT, *swept)})


def unequal_rows(rows: list[Row], *swept: str) -> list[Row]:
    """The rows that differ, in any result they show, from an estimate of that one configuration."""
    results = set(rows[0]) - set(JOINT) - set(swept)
    wrong = []
    for row in rows:
        single = estimate_of(row, *swept)
        wrong += [row for name in results if single[name] != row[name]][:1]
    return wrong
