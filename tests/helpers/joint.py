"""A hundred thousand valid mappings on 1024 accelerators, and how one of them runs alone."""

from collections.abc import Iterator
from functools import cache
from itertools import islice

import numpy as np

from amped.configuring.scenario import Scenario, read_scenario
from amped.configuring.sources import Sources
from amped.engine.evaluate import Results, run
from amped.engine.resolve import Plan, plan
from amped.theory.language.catalogue import Catalogue
from tests.helpers.explore import divisors

TUPLES = 100_000
OPEN = {"memory_bandwidth": np.array([0.5e12, 1e12, 2e12])}
PLACED = ("data", "tensor", "pipeline")
COLUMNS = (*(f"{place}_node_{kind}_parallel_degree" for kind in PLACED for place in ("intra", "inter")),
           "microbatch_size", "batch_size")  # fmt: skip
BANDWIDTH = "inter_accelerator_bandwidth"


def splits(number: int) -> Iterator[tuple[int, int, int]]:
    yield from ((a, b, number // a // b) for a in divisors(number) for b in divisors(number // a))


def tuples() -> Iterator[tuple[int, ...]]:
    """Valid mappings on 1024 accelerators in nodes of 8: degrees multiply, batches divide."""
    for batch in range(1024, 1024 * 16, 512):
        for inside in splits(8):
            for across in splits(128):
                replicas = inside[0] * across[0]
                if batch % replicas == 0:
                    parts = [part for pair in zip(inside, across, strict=True) for part in pair]
                    yield from ((*parts, size, batch) for size in divisors(batch // replicas))


@cache
def joint_columns() -> dict[str, np.ndarray]:
    table = np.array(list(islice(tuples(), TUPLES)), dtype=np.float64)
    assert table.shape == (TUPLES, len(COLUMNS))
    assert len(np.unique(table, axis=0)) == TUPLES
    return dict(zip(COLUMNS, table.T, strict=True))


@cache
def scenario() -> Scenario:
    return read_scenario("default", {"activation_recomputation": "selective"})


def planned(known: Catalogue, names: tuple[str, ...], swept: tuple[str, ...]) -> tuple[Plan, dict[str, float]]:
    """A plan in which the joint and the open variables are given, and all other values."""
    sources = scenario().sources
    searched = {"tensor_parallel_degree", "pipeline_parallel_degree"}
    values = {k: v for k, v in sources.given.items() if k not in searched}
    values |= dict.fromkeys((*COLUMNS, *swept), 1.0)
    return plan(known, names, Sources(given=values, choices=sources.choices)), values


def alone(chosen: Plan, values: dict[str, float], row: int, swept: dict[str, float]) -> Results:
    own = {name: column[row] for name, column in joint_columns().items()}
    return run(chosen, values | {k: float(v) for k, v in own.items()} | swept)
