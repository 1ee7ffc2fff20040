"""What campaigns found, and must not come again: each case as the campaign told it, and how many results it has now."""

from typing import Any

import pytest

from amped.theory.language.quantity import MAPPING, NETWORK, SYSTEM
from tests.campaigns.kinds import KINDS
from tests.campaigns.trying import tried

LONG = "x" * 400


def config(model: str, system: str, batch: int, **mapping: object) -> dict[str, Any]:
    """A config of two rows, a batch and a mapping."""
    return {"config": {
        NETWORK: {"parameters": {"batch_size": {"value": batch}}, "lookup_config": {"lookup_table_row": model}},
        MAPPING: {"parameters": {name: {"value": value} for name, value in mapping.items()}},
        SYSTEM: {"lookup_config": {"lookup_table_row": system}},
    }}  # fmt: skip


RUN = {"system": "DGX A100", "layers": "40", "dimensionality": "6144", "attention_heads": "48", "vocabulary_size": "51200",
       "context": "2048", "batch_size": "1024"}  # fmt: skip
PARTS = {"performance_model": "amped", "context_parallel_degree": 1, "intra_node_context_parallel_degree": 8}
FOUND = {
    "a V of one stage, with predictions of several tokens": ("configs", config("DeepSeek V3", "DGX H100", 2, pipeline_schedule="zero_bubble_v"), 0),
    "a part of a degree that is an eighth": ("configs", config("GPT-3 13B", "GB200 NVL72", 64, **PARTS), 0),
    "a line of another file of findings": ("findings", {"search": 2, "changes": [["line of another", 550998]]}, 0),
    "a folder of tables with an endless name": ("lines", {"words": ["check-tables", LONG]}, 0),
    "a file to import with an endless name": ("lines", {"words": ["import", LONG]}, 0),
    "a resumed search with an endless name": ("lines", {"words": ["explore", "small.json", "--resume", LONG]}, 0),
    "a shard with an endless name": ("lines", {"words": ["explore", "small.json", "--shard", "1/2", "--output", LONG]}, 0),
    "kernels in a folder with an endless name": ("lines", {"words": ["calibrate", "--kernels", LONG]}, 0),
    "a model with an endless name": ("tables", {"content": {"table": "transformer_network_parameters", "rows": {LONG: {}}}}, 0),
    "a layout of one chunk a stage where the config has two": (
        "settings", {"config": "megatron-145.6B", "set": ["pipeline_layout=1_000"]}, 0,
    ),
    "a wider dense network that a mixture does not have": (
        "pairs", {"given": {"model": "Mixtral 8x7B", "performance_model": "amped", "activation_recomputation": "alternate_products"},
                  "changes": [["feedforward_dimension"]]}, 1,
    ),
    "a time of panels where there are none": ("lines", {"words": ["explain", "layer_waits", "--inside"]}, 1),
    "a pattern of one dense layer": ("settings", {"config": "optical-glam-1.2T", "set": ["mixture_layer_pattern=0"]}, 0),
    "a placement that leaves the fast domain's size unasked": (
        "settings", {"config": "megatron-145.6B", "set": ["fast_domain_slots_for_tensor=8"]}, 0,
    ),
    "a device that computes nothing": ("lines", {"words": ["data-movement", "--peak-flop-rate", "0", "--memory-bandwidth", "3"]}, 0),
    "a measured step of ten billion years": ("tables", {"measurements": [RUN | {"measured_step_time": "100000000000000000000"}]}, 1),
    "half of a pair of surrogates in a table": (
        "tables",
        {"content": {"rows": {"Mine": {"inter_accelerator_bandwidth": "\ud800"}}}, "verb": "show"},
        1,
    ),
    "a layout that is found anew for another switch": (
        "switches",
        {
            "given": {
                "model": "DeepSeek V3",
                "data_parallel_degree": 2,
                "pipeline_parallel_degree": 4,
                "microbatch_size": 2,
                "expert_parallel_degree": 8,
                "optimizer_offload": 1,
                "host_memory_bandwidth": 40000000000.0,
            },
            "switches": ["overlap_expert_communication"],
        },
        1,
    ),
    "gradients beside tensor messages of unequal stages": (
        "switches",
        {
            "given": {"model": "Gemma 2 27B", "tensor_parallel_degree": 8, "pipeline_parallel_degree": 4, "context_parallel_degree": 2,
                      "zero_stage": 2},
            "switches": ["overlap_data_communication", "overlap_tensor_communication"],
        },
        2,
    ),
    "unequal stages of mixtures that are alike": (
        "explorations",
        {"values": {"number_of_experts": 4, "layers": 6, "memory_capacity": "40 GB"}},
        1,
    ),
    "a row that gives the whole memory": (
        "tables",
        {"content": {"table": "software_specifications", "rows": {"Mine": {"memory_per_accelerator_bytes": 900000000.0}}}},
        1,
    ),
    "a slower kernel beside copies of a zero bubble": (
        "pairs",
        {
            "given": {"model": "DeepSeek V3", "pipeline_parallel_degree": 8, "pipeline_schedule": "zero_bubble_h1",
                      "activation_offload": 1, "host_link_bandwidth": 2000000000.0},
            "changes": [["kernel_overhead_time"]],
        },
        1,
    ),
    "exchanges that overlap beside copies of a zero bubble": (
        "switches",
        {
            "given": {"model": "Llama 4 Scout", "pipeline_parallel_degree": 8, "pipeline_schedule": "zero_bubble_v",
                      "weight_offload": 0.5},
            "switches": ["overlap_expert_communication"],
        },
        1,
    ),
    "slower reductions beside a zero bubble that waits for its host": (
        "pairs",
        {
            "given": {"model": "T5 large", "pipeline_parallel_degree": 8, "kernel_launch_time": 1e-05, "pipeline_schedule": "zero_bubble_h1"},
            "changes": [["overlap_slowdown_fraction"]],
        },
        1,
    ),
    "longer reductions beside a zero bubble that waits for its host": (
        "pairs",
        {
            "given": {"model": "T5 large", "pipeline_parallel_degree": 4, "batch_size": 64, "sequence_parallel": True,
                      "host_time_per_layer": 0.0008, "pipeline_schedule": "zero_bubble_v"},
            "changes": [["inter_accelerator_ramp_bytes"]],
        },
        1,
    ),
    "mixture layers of a network without experts": (
        "tables",
        {"measurements": [{"system": "TPU v5e pod", "layers": "64", "dimensionality": "10240", "attention_heads": "64",
                           "vocabulary_size": "32768", "context": "2048", "number_of_MoE_layers": "48",
                           "batch_size": "256", "measured_step_time": "14.91088"}]},
        1,
    ),
    "a longer output head beside whose chunk gradients of others are exchanged": (
        "pairs",
        {
            "given": {"model": "DeepSeek V3", "system": "AWS p5en", "tensor_parallel_degree": 1, "pipeline_parallel_degree": 4,
                      "batch_size": 64, "context_parallel_degree": 4, "virtual_pipeline_stages": 2, "expert_parallel_degree": 2,
                      "overlap_data_communication": True},
            "changes": [["kernel_launch_time", 4]],
        },
        1,
    ),
    "so many places of an expert that a utilization cancels": (
        "settings", {"config": "mixtral-8x7b", "set": ["moe_expert_capacity_factor=100000000000000000000"]}, 0,
    ),
    "slower reductions that more of delayed weight gradients would hide": (
        "pairs",
        {
            "given": {"model": "T5 large", "data_parallel_degree": 8, "pipeline_parallel_degree": 4, "microbatch_size": 2, "batch_size": 128,
                      "pipeline_schedule": "zero_bubble_v", "host_time_per_layer": 0.0002},
            "changes": [["inter_accelerator_ramp_bytes"]],
        },
        1,
    ),
    "twice as many stages as layers, which took minutes to balance": (
        "configs",
        config("Qwen3 30B-A3B", "DGX-1 V100", 64, tensor_parallel_degree=1, data_parallel_degree=4, pipeline_parallel_degree=96, microbatch_size=2,
               context_parallel_degree=4, virtual_pipeline_stages=2, expert_parallel_degree=1),
        0,
    ),
    "a rotary part wider than its head": (
        "tables",
        {"content": {"transformer_network_parameters": {"Mine": {"layers": 60, "dimensionality": 5120, "attention_heads": 128, "vocabulary_size": 102400,
                     "context": 4096, "key_value_latent_dimension": 512, "rotary_head_dimension": 64000}}}},
        0,
    ),
    "an explanation of what follows from a layout that amped found": (
        "lines", {"words": ["explain", "sharded_weight_window_time", "electrical-glam-1.2T"]}, 1,
    ),
    "a folder of measured kernels that is the whole disk": ("settings", {"set": ["measured_kernel_table=/"]}, 0),
    "a key of control letters whose value is no number": (
        "tables", {"content": {"rows": {"\x1b[31m": float("nan")}}}, 0,
    ),
    "an output head as long as its stage, beside layers whose weights are copied from the host": (
        "configs",
        {"config": {
            NETWORK: {"parameters": {"batch_size": {"value": 128}}, "lookup_config": {"lookup_table_row": "Gemma 2 2B"}},
            MAPPING: {"parameters": {n: {"value": v} for n, v in {"tensor_parallel_degree": 2, "pipeline_parallel_degree": 8, "microbatch_size": 2,
                                                                  "weight_offload": 0.5}.items()}},
            SYSTEM: {"parameters": {"bandwidth_per_network_card": {"value": 2e9}, "host_memory_bandwidth": {"value": 4e10}},
                     "lookup_config": {"lookup_table_row": "DGX A100"}},
        }},
        1,
    ),
    "a list of rows of which one has no aliases": (
        "tables", {"content": {"table": "accelerator_specifications", "rows": {"": {"aliases": None}}}, "verb": "list"}, 1,
    ),
    "what would help 64 unequal chunks, each layout of which took a second": ("lines", {"words": ["why", "--vp", "8"]}, 1),
    "a template as JSON": ("lines", {"words": ["validate", "--template", "--json"]}, 0),
}  # fmt: skip


@pytest.mark.thorough
@pytest.mark.parametrize("what", FOUND)
def test_it_does_not_come_again(what: str) -> None:
    kind, case, results = FOUND[what]
    seen, failure = tried(KINDS[kind], case)
    assert failure is None, str(failure)
    assert seen.answered == results
