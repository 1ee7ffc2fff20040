"""Training runs at random, as values by name: a network, a machine, a mapping, and how its messages travel."""

from functools import cache
from random import Random
from typing import Any

from amped.configuring.config import Config
from amped.library import Estimate, estimate, load_config
from amped.tables.table_files import SYSTEMS, shipped
from amped.theory.language.catalogue import catalogue
from amped.theory.language.quantity import SYSTEM
from amped.theory.nouns.parallelisms import PARALLELISMS
from tests.campaigns.values import config_of, fitting

DENSE = (
    "Llama 3 8B",
    "Llama 3 70B",
    "GPT-3 175B",
    "GPT-3 13B",
    "Phi-3 small",
    "Gemma 2 27B",
    "T5 large",
    "Falcon 40B",
    "ViT-L/16",
)
MIXTURES = (
    "Mixtral 8x7B",
    "Qwen3 30B-A3B",
    "DeepSeek V2",
    "DeepSeek V3",
    "Llama 4 Scout",
    "gpt-oss-20b",
    "GLaM 64B/64E",
)
MACHINES = ("DGX H100", "DGX A100", "DGX-2", "DGX B200", "DGX H100")
SWITCHES = (
    *(f"overlap_{kind}_communication" for kind in (*PARALLELISMS, "offload")),
    "overlap_forward_tensor_communication",
)
CHOICES = (
    "activation_recomputation", "pipeline_schedule", "context_parallel_kind", "placement_order", "flash_attention", "zero_stage",
    "sequence_parallel", "gradients_have_own_links", "performance_model", "pipelined_weight_sharding", "matrix_precision", "optimizer",
    "network_kind", "attention_flop_convention", *SWITCHES,
)  # fmt: skip
SHARES = ("optimizer_offload", "activation_offload", "weight_offload")
NUMBERS = {
    "host_time_per_layer": (0.0, 0.2e-3, 0.8e-3), "host_time_per_step": (0.0, 10e-3), "bandwidth_per_network_card": (2e9, 25e9, 100e9),
    "inter_accelerator_bandwidth": (20e9, 150e9, 450e9), "host_link_bandwidth": (2e9, 25e9, 450e9), "host_memory_bandwidth": (40e9, 409.6e9),
    "inter_node_latency": (1e-6, 1e-5), "inter_accelerator_latency": (1e-6, 5e-6), "kernel_launch_time": (0.0, 2e-6, 1e-5),
    "overlap_slowdown_fraction": (0.0, 0.15, 0.5), "expert_exchange_processor_fraction": (0.0, 0.15, 0.4), "memory_capacity": (40e9, 1e12),
    "host_waits_for_dispatch": (0, 1),
}  # fmt: skip


def drawn_run(random: Random) -> dict[str, Any]:
    """Values by name; about half of these runs keep all rules."""
    pipeline, data, tensor = random.choice([1, 1, 2, 4, 8]), random.choice([1, 2, 4, 8]), random.choice([1, 2, 4, 8])
    microbatches = pipeline * random.choice([1, 2, 4])
    size = random.choice([1, 1, 2])
    mixture = random.random() < 0.4
    systems = MACHINES if random.random() < 0.6 else [*shipped(SYSTEMS)]
    given: dict[str, Any] = {
        "model": random.choice(MIXTURES if mixture else DENSE), "system": random.choice(systems), "tensor_parallel_degree": tensor, "data_parallel_degree": data,
        "pipeline_parallel_degree": pipeline, "microbatch_size": size, "batch_size": microbatches * data * size, "tokens_to_train": "1 T",
        "context_parallel_degree": random.choice([1, 1, 1, 2, 4]),
    }  # fmt: skip
    if pipeline > 1 and random.random() < 0.3:
        given["virtual_pipeline_stages"] = random.choice([1, 2, 4])
    if mixture:
        given["expert_parallel_degree"] = random.choice([1, 2, 4, 8])
    for name in random.sample(CHOICES, random.randint(0, 6)):
        given[name] = fitting(random, catalogue()[name])
    if random.random() < 0.25:
        given |= {name: random.choice([0, 0.5, 1]) for name in random.sample(SHARES, random.randint(1, 3))}
    return given | {name: random.choice(NUMBERS[name]) for name in random.sample([*NUMBERS], random.randint(0, 5))}


@cache
def machine_left_open() -> Config:
    """The smallest shipped config without the size of its machine, which the degrees then say."""
    config = config_of("minimal")
    del config[SYSTEM]["parameters"]["number_of_nodes"]
    return load_config(config)


def asked(given: dict[str, Any]) -> Estimate:
    """The estimate of values by name."""
    return estimate(machine_left_open(), **given)
