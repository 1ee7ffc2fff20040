"""What same.py asks both trees: plain data, in the names of the older commit. Nothing here imports amped."""

from __future__ import annotations

import csv
import json
import random
from collections.abc import Mapping
from pathlib import Path
from typing import Any

# A config, and what overrides it.
Question = tuple[Any, dict[str, Any]]
SECTIONS = ("shapes", "configs", "rows", "mappings", "explorations", "offered", "fits")
MAPPINGS, SEED = 200, 20261122

NETWORK, MAPPING = "neural_network_training_parameters", "mapping_parameters"
SYSTEM, ACCELERATOR = "system_architecture_parameters", "accelerator_architecture_parameters"
# Layers of each network that mappings are drawn for.
MODELS = {
    "GPT-3 175B": 96, "GPT-3 13B": 40, "Megatron 145.6B": 80, "Llama 3 8B": 32, "Llama 3 70B": 80, "Llama 3.1 405B": 126,
    "Mistral 7B": 32, "Mixtral 8x7B": 32, "GLaM 64B/64E": 64, "DeepSeek V3": 61, "BERT large": 24, "Falcon 40B": 60,
}  # fmt: skip
MIXTURES = ("Mixtral 8x7B", "GLaM 64B/64E", "DeepSeek V3")
SYSTEMS = (
    "DGX-1 V100",
    "DGX A100",
    "DGX H100",
    "DGX B200",
    "GB200 NVL72",
    "MI300X platform (8x, NDR/RoCE 400)",
    "AWS p4d",
)
SOFTWARE = ("default", "Megatron-LM 2021", "Megatron-Core", "NeMo", "torchtitan", "torchtitan, compiled", "PyTorch")
# Values drawn now and then, beside those that every mapping has; most are valid with most others.
NOW_AND_THEN: dict[str, tuple[Any, ...]] = {
    "activation_recomputation": ("none", "selective", "full", "alternate_products"),
    "zero_stage": (0, 1, 2, 3), "sequence_parallel": (True, False), "flash_attention": (True, False),
    "matrix_precision": ("bf16", "fp16", "fp32", "fp8"), "optimizer": ("adam", "sgd", "none"), "dropout": (0, 0.1),
    "collective_algorithm": ("ring", "tree", "hierarchical"), "context": (1024, 2048, 4096, 8192),
    "performance_model": ("amped", "operators"), "placement_order": ("tensor_context_pipeline_data",),
    "overlap_tensor_communication": (True, False), "overlap_data_communication": (True, False),
    "overlap_pipeline_communication": (True, False), "activation_function_recomputation": (True,),
    "in_place_norm": (True,), "in_place_activation": (True,), "dropout_recomputation": (True,),
    "optimizer_offload": (0.5, 1), "activation_offload": (0.5,), "weight_offload": (0.25,),
    "expert_imbalance_factor": (1.25,), "attention_flop_convention": ("causal",), "samples": (1e6,),
    "attention_window": (512,), "network_kind": ("optical_circuit_switched",), "memory_capacity": ("192 GB", "40 GiB"),
    "inter_node_bandwidth": ("12.5 GB/s",), "inter_node_latency": ("5 us", 2e-6), "pipelined_weight_sharding": (True,),
}  # fmt: skip
# What makes a mapping wrong: refusals are answers too.
SPOILED: tuple[dict[str, Any], ...] = (
    {"tensor_parallel_degree": 3}, {"pipeline_parallel_degree": 7}, {"batch_size": 1021}, {"microbatch_size": 0},
    {"zero_stage": 5}, {"context": "long"}, {"memory_capacity": "80 s"}, {"tensor_paralel_degree": 2},
    {"pipeline_schedule": "2f2b"}, {"model": "GPT-9"}, {"data_parallel_degree": 1000}, {"virtual_pipeline_stages": 5},
    {"number_of_accelerators": -8}, {"activation_recomputation": "block"}, {"expert_parallel_degree": 48},
    {"batch_size": [64, 128]}, {"fits_in_memory": True}, {"tensor_parallel_rows": 2, "tensor_parallel_strategy": "2d_summa"},
)  # fmt: skip
MACHINE = {"number_of_accelerators": 128, "batch_size": 256}
# A config, and the arguments of amped.explore.
EXPLORATIONS: dict[str, Question] = {
    "default space": ("default", {"top": 5, **MACHINE}),
    "degrees, least memory": ("default", {"objective": "memory_per_accelerator_bytes", "space": "degrees", **MACHINE}),
    "full space, most tokens": ("llama-3-70b", {
        "objective": "tokens_per_second_per_accelerator", "space": "full", "number_of_nodes": 8, "batch_size": 256,
        "tensor_parallel_degree": 8}),
    "sweeps, each batch": ("minimal", {
        "vary": {"batch_size": [64, 128, 256], "microbatch_size": [1, 2]}, "each": ["batch_size"], "space": "degrees"}),
    "wishes": ("llama-3-70b", {
        "where": ["memory_per_accelerator_bytes < 60 GB", "tensor_parallel_degree <= 4"], "number_of_nodes": 16}),
    "a front": ("default", {"pareto": ["step_time", "memory_per_accelerator_bytes"], **MACHINE}),
    "mixture of experts": ("mixtral-8x7b", {"objective": "step_time", "vary": {"expert_parallel_degree": [1, 2, 4, 8]}}),
    "2d strategies": ("default", {
        "vary": {"tensor_parallel_strategy": ["1d", "2d_summa", "2d_context"]}, "space": "degrees", **MACHINE}),
    "rows and schedules": ("default", {
        "vary": {"system": ["Selene", "DGX H100"], "pipeline_schedule": ["1f1b", "gpipe", "zero_bubble_h1"]},
        "each": ["system"], "space": "degrees", **MACHINE}),
    "closed form, least energy": ("default", {
        "performance_model": "amped", "space": "degrees", "objective": "energy", "largest": False, **MACHINE}),
}  # fmt: skip


def configs(tree: Path) -> dict[str, Question]:
    """Every config of a tree, by its content and by its name: the name reads each tree's own file."""
    asked: dict[str, Question] = {}
    for file in sorted(tree.glob("configs/*.json")):
        asked[f"{file.stem}, its content"] = (json.loads(file.read_text("utf-8")), {})
        asked[f"{file.stem}, by name"] = (file.stem, {})
    return asked


def mappings(number: int = MAPPINGS) -> dict[str, Question]:
    """Mappings at random, the same in every run; a part of them is wrong on purpose."""
    dice = random.Random(SEED)
    return {f"mapping {place}": _mapping(dice, as_config=place % 2 == 1) for place in range(number)}


def _mapping(dice: random.Random, as_config: bool) -> Question:
    values = _degrees(dice)
    offered = [name for name in NOW_AND_THEN if name not in values]
    values |= {name: dice.choice(NOW_AND_THEN[name]) for name in dice.sample(offered, dice.randint(1, 5))}
    if dice.random() < 0.2:
        values["software"] = dice.choice(SOFTWARE)
    if dice.random() < 0.2:
        values |= dice.choice(SPOILED)
    return (_as_config(values), {}) if as_config else ("default", values)


def _degrees(dice: random.Random) -> dict[str, Any]:
    """A network on a machine, with degrees that mostly divide it."""
    model, size = dice.choice(list(MODELS)), dice.choice((8, 16, 32, 64, 128, 256, 512, 1024))
    tensor, context = dice.choice((1, 2, 4, 8)), dice.choice((1, 1, 1, 2, 4))
    pipeline = dice.choice([n for n in (1, 2, 3, 4, 6, 8, 10, 16) if MODELS[model] % n == 0])
    while size % (tensor * context * pipeline):
        size *= 3 if pipeline % 3 == 0 and size % 3 else 5 if pipeline % 5 == 0 and size % 5 else 2
    data = size // (tensor * context * pipeline)
    micro, steps = dice.choice((1, 1, 2, 4)), pipeline * dice.choice((1, 2, 4))
    values: dict[str, Any] = {
        "model": model, "system": dice.choice(SYSTEMS), "number_of_accelerators": size, "batch_size": data * micro * steps,
        "tensor_parallel_degree": tensor, "pipeline_parallel_degree": pipeline, "context_parallel_degree": context,
        "microbatch_size": micro,
    }  # fmt: skip
    if pipeline > 1:
        values |= _schedule(dice, MODELS[model] // pipeline)
    if model in MIXTURES:
        values |= {"expert_parallel_degree": dice.choice((1, 2, 4, 8)), "expert_tensor_parallel_degree": 1}
    return values


def _schedule(dice: random.Random, layers: int) -> dict[str, Any]:
    """How a pipeline with so many layers in a stage runs."""
    chunks = [n for n in (2, 3, 4, 5) if layers % n == 0]
    if chunks and dice.random() < 0.4:
        return {"virtual_pipeline_stages": dice.choice(chunks)}
    return {"pipeline_schedule": dice.choice(("1f1b", "1f1b", "gpipe", "zero_bubble_h1", "zero_bubble_v"))}


# The section of a config for names that are not in its mapping section.
PLACES = {
    **dict.fromkeys(("batch_size", "context", "dropout", "samples", "attention_window", "flash_attention", "optimizer"), NETWORK),
    **dict.fromkeys(("number_of_accelerators", "network_kind", "inter_node_bandwidth", "inter_node_latency"), SYSTEM),
    "memory_capacity": ACCELERATOR,
}  # fmt: skip


def _as_config(values: Mapping[str, Any]) -> dict[str, Any]:
    """The same values as a config of sections."""
    rows = {"model": NETWORK, "system": SYSTEM, "software": MAPPING}
    made: dict[str, Any] = {section: {"parameters": {}} for section in (NETWORK, MAPPING, SYSTEM, ACCELERATOR)}
    for name, value in values.items():
        if name in rows:
            made[rows[name]]["lookup_config"] = {"lookup_table_row": value}
        elif name == "performance_model":
            made[name] = value
        else:
            made[PLACES.get(name, MAPPING)]["parameters"][name] = {"value": value}
    return made


def number_of_rows(table: Path) -> int:
    """The rows of a table of measurements."""
    with table.open(encoding="utf-8", newline="") as lines:
        return sum(1 for _ in csv.DictReader(lines))
