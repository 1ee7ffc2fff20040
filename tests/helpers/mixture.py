"""16 accelerators, and a network of one dense layer and five mixtures: each mapping in a plain loop over `amped.estimate`."""

from collections.abc import Iterator
from functools import cache
from itertools import product
from typing import Any

import amped
from amped.configuring.config import Config
from tests.helpers.explore import divisors
from tests.helpers.formulas import sectioned

LAYERS, HEADS, EXPERTS, BATCH, ACCELERATORS = 6, 4, 4, 2, 16
NETWORK = {
    "layers": LAYERS, "number_of_MoE_layers": 5, "dimensionality": 1024, "attention_heads": HEADS, "vocabulary_size": 32000,
    "feedforward_dimension": 4096, "number_of_experts": EXPERTS, "experts_per_token": 2, "expert_feedforward_dimension": 2048,
    "context": 2048, "batch_size": BATCH, "tokens_to_train": 1e9,
}  # fmt: skip
# Capacities with which some mappings fit and some do not, and the policies that are held at one value.
SYSTEMS = {"DGX A100": "1.85 GB", "DGX H100": "1.9 GB", "GB200 NVL72": "1.4 GB"}
POLICIES = {
    "activation_recomputation": ("none", "selective", "full"), "zero_stage": (0, 1, 2, 3),
    "sequence_parallel": (False, True), "flash_attention": (False, True),
}  # fmt: skip


def question(system: str) -> dict[str, Any]:
    """What is asked of a system."""
    return {"system": system, "number_of_accelerators": ACCELERATORS, "memory_capacity": SYSTEMS[system]}


@cache
def network() -> Config:
    return amped.load_config(sectioned(NETWORK))


def mappings() -> Iterator[dict[str, Any]]:
    """Every way to write the machine as a product of four, with the degrees of experts and micro-batches that divide."""
    for tensor, pipeline, context in product(divisors(ACCELERATORS), repeat=3):
        whole = ACCELERATORS % (tensor * pipeline * context) == 0
        data = ACCELERATORS // (tensor * pipeline * context)
        if not whole or HEADS % tensor or BATCH % data:
            continue
        for experts, shares, size in product(divisors(EXPERTS), {1, tensor}, divisors(BATCH // data)):
            if (data * context * tensor) % (experts * shares) == 0:
                yield {
                    "tensor_parallel_degree": tensor, "pipeline_parallel_degree": pipeline, "context_parallel_degree": context,
                    "expert_parallel_degree": experts, "expert_tensor_parallel_degree": shares, "microbatch_size": size,
                }  # fmt: skip


def chunks_of(mapping: dict[str, Any]) -> list[int]:
    """Powers of two, as long as each chunk has a layer or an end, where micro-batches come in whole rounds of the stages."""
    stages = mapping["pipeline_parallel_degree"]
    replicas = ACCELERATORS // (stages * mapping["tensor_parallel_degree"] * mapping["context_parallel_degree"])
    rounds = stages > 1 and BATCH // replicas // mapping["microbatch_size"] % stages == 0
    return [v for v in (1, 2, 4, 8) if stages * v <= LAYERS + 2 and (v == 1 or rounds)]


def candidates(**held: Any) -> Iterator[dict[str, Any]]:
    """Every mapping with every number of chunks and every policy that is not held; a degree may be held too."""
    policies = {name: values for name, values in POLICIES.items() if name not in held}
    for mapping in (each for each in mappings() if all(each[name] == held.get(name, each[name]) for name in each)):
        for chunks, *values in product(chunks_of(mapping), *policies.values()):
            found = mapping | held | {"virtual_pipeline_stages": chunks} | dict(zip(policies, values, strict=True))
            weights_in_stages = found["zero_stage"] == 3 and mapping["pipeline_parallel_degree"] > 1
            alone = found["sequence_parallel"] and mapping["tensor_parallel_degree"] == 1
            if not weights_in_stages and (not alone or "sequence_parallel" in held):
                yield found


def step_time(system: str, candidate: dict[str, Any]) -> float | None:
    """Seconds of a step, none where memory is short."""
    found = amped.estimate(network(), **question(system), **candidate)
    return found["step_time"] if found["fits_in_memory"] else None
