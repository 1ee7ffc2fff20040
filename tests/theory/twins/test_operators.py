"""The operator model against a slow twin that was written from what its pages say, for dense decoders."""

from math import fsum, isfinite

import pytest

import amped
from tests.helpers.contract import KINDS
from tests.helpers.twins import operators as twin
from tests.helpers.twins.communication import tiers
from tests.helpers.twins.data import (
    WINDOWS,
    data_communication,
    free_forward,
    hidden_data_communication,
    parameters_of_the_fullest,
    stages,
)
from tests.helpers.twins.layers import microbatch_tokens
from tests.helpers.twins.pipeline import waited

# --- the twin's step: layers, stages and micro-batches ---------------------------------------------------------------


def tensor_communication(p):
    """Forward seconds of a layer, those of its gathers, and those of its scatters."""
    group, payload = tiers(p, "tensor"), microbatch_tokens(p) * p["dimensionality"] * p["activation_precision"]
    if p["sequence_parallel"]:
        once = twin.called(p, "gather", group, payload)
        return 4 * once, 2 * once, 2 * once
    return 2 * twin.called(p, "all_reduce", group, payload), 0.0, 0.0


def layer(p):
    """Seconds of one layer for one micro-batch, by part of the step."""
    kernels = twin.attention(p) + twin.feedforward(p)
    forward, backward, update = (twin.phase_seconds(p, kernels, phase) for phase in twin.PHASES)
    host = p["host_time_per_layer"]
    forward, backward, update = max(forward, host), max(backward, host / 2), max(update, host / 2)
    busy_there, busy_back = (fsum(k.seconds for k in kernels if k.phase == phase) for phase in twin.PHASES[:2])
    core = twin.phase_seconds(p, [k for k in kernels if k.name in twin.CORE], "forward")
    full = p["activation_recomputation"] == "full"
    last = twin.phase_seconds(p, [k for k in kernels if k.name == "feedforward_down"], "forward")
    needed = forward - (last if p["recomputation_stops_early"] else 0.0)
    again = {"none": 0.0, "selective": core, "full": needed}[p["activation_recomputation"]]
    there, gathers, scatters = tensor_communication(p)
    back = there * (1 if full else 0) + there + gathers  # backward gathers its inputs once more
    beside = min(gathers, backward)  # the inputs gathered again
    if p["overlap_tensor_communication"]:  # and what was gathered is scattered, as gradients beside the next products
        beside += min(there - scatters, update)
    idle_there, idle_back = forward - busy_there, backward - busy_back
    host_there = min(there, idle_there)
    host_back = max(min(back - beside, idle_back + (idle_there if full else 0.0)), 0.0)
    exposed_back = back - beside * (1 - p["overlap_slowdown_fraction"]) - host_back
    return {"compute_forward_time": forward, "compute_backward_time": backward, "weight_update_time": update,
            "recomputation_time": again, "hidden_tensor_communication_time": beside + host_there + host_back,
            "exposed_tensor_communication_time": there - host_there + exposed_back,
            "hidden_there": host_there, "hidden_back": beside + host_back,
            "hidden_exposed_there": there - host_there, "hidden_exposed_back": exposed_back}  # fmt: skip


def end(p, kernels):
    """Seconds of one end of the network for one micro-batch: it sends as much as one block."""
    forward, backward, update = (twin.phase_seconds(p, kernels, phase) for phase in twin.PHASES)
    return {"compute_forward_time": forward, "compute_backward_time": backward, "weight_update_time": update,
            "exposed_tensor_communication_time": tensor_communication(p)[0] / 2}  # fmt: skip


def boundary(p):
    """Seconds to hand a micro-batch to the next stage, and to put its shares together there."""
    if p["pipeline_parallel_degree"] == 1:
        return 0.0
    near, far = tiers(p, "pipeline")
    payload = microbatch_tokens(p) * p["dimensionality"] * p["activation_precision"]
    link, ramp = (far, "inter_node_ramp_bytes") if far.members > 1 else (near, "inter_accelerator_ramp_bytes")
    sent = (payload / p["tensor_parallel_degree"] + p[ramp]) / link.bandwidth + link.latency
    gathered = 0.0 if p["sequence_parallel"] else twin.called(p, "gather", tiers(p, "tensor"), payload)
    return p["collective_overhead_time"] + sent + gathered


def on_the_slowest_stage(p):
    """What it spends in a step by part, what each stage takes for a micro-batch, and how many layers the slowest has."""
    work = [[layer(p)] * int(layers) for layers in stages(p)]
    layers = [len(stage) for stage in work]
    work[0] = [end(p, twin.embedding(p)), *work[0]]
    work[-1] = [*work[-1], end(p, twin.head(p))]
    each = [fsum(s for item in stage for name, s in item.items() if "hidden" not in name) for stage in work]
    pace = each.index(max(each))
    spent = [item for _ in range(int(p["number_of_microbatches_per_minibatch"])) for item in work[pace]]
    parts = {name: fsum(item.get(name, 0.0) for item in spent) for name in layer(p)}
    return parts, [forward_and_all(p, stage) for stage in work], layers[pace]


def forward_and_all(p, stage):
    """Seconds of a stage for a micro-batch, forward and in all; a layer sends forward, the head's only back."""
    parts = [name for name in layer(p) if "hidden" not in name]
    sends = "exposed_tensor_communication_time"
    there, blocks = tensor_communication(p)[0], [item for item in stage if "recomputation_time" in item]
    forward = [item["compute_forward_time"] for item in stage] + [there for _ in blocks]
    if len(stage) > len(blocks) and stage[0] is not blocks[0]:
        forward.append(stage[0][sends])
    return fsum(forward), fsum(item.get(name, 0.0) for item in stage for name in parts)


def ends_take(p):
    """Seconds of embedding and head for a micro-batch, forward and in all."""
    first, last = end(p, twin.embedding(p)), end(p, twin.head(p))
    sends = first["exposed_tensor_communication_time"]
    return (first["compute_forward_time"] + sends, fsum(first.values())), (
        last["compute_forward_time"],
        fsum(last.values()),
    )


def step(p):
    """Every part of a step: the slowest stage never waits between its first and its last micro-batch."""
    parts, stages_take, layers = on_the_slowest_stage(p)
    v, kept = p["virtual_pipeline_stages"], 1 - p["overlap_slowdown_fraction"]
    sides = min((p["pipeline_parallel_degree"] - 1) * (1 + (v > 1)), 2)  # chunks go round
    handed = fsum(sides * boundary(p) for _ in range(int(p["number_of_microbatches_per_minibatch"] * v)))
    free = free_forward(p, parts) * p["overlap_pipeline_communication"]
    beside = parts["hidden_pipeline_communication_time"] = min(handed, free)
    gradients, weights = data_communication(p)
    hidden = hidden_data_communication(p, parts, gradients, weights, layers)
    held = boundary(p) * (1 - p["overlap_pipeline_communication"])
    waiting = waited(p, stages_take, ends_take(p), boundary(p), held)
    told = {name: seconds for name, seconds in parts.items() if name not in WINDOWS}
    return told | {
        "optimizer_time": twin.optimizer(p, parameters_of_the_fullest(p)),
        "pipeline_bubble_time": p["exposed_bubble_fraction"] * waiting,
        "exposed_pipeline_communication_time": handed - beside * kept,
        "hidden_data_communication_time": hidden,
        "exposed_data_communication_time": gradients + weights - hidden * kept,
    }


# --- the comparison --------------------------------------------------------------------------------------------------

# What nobody computes: numbers of a config, of a table's row, or a registered default.
LEAVES = (
    "layers", "dimensionality", "attention_heads", "key_value_heads", "head_dimension", "feedforward_dimension",
    "gated_mlp", "vocabulary_size", "context", "batch_size", "microbatch_size", "number_of_MoE_layers",
    "norm_vectors", "norms_per_layer", "query_key_value_bias", "attention_output_bias", "mlp_bias", "position_table",
    "tied_embeddings", "number_of_microbatches_per_minibatch", "virtual_pipeline_stages",
    "number_of_first_stage_layers", "number_of_last_stage_layers", "exposed_bubble_fraction", "zero_stage",
    "sharding_degree", "sequence_parallel", "flash_attention", "causal", "dropout", "weight_precision",
    "activation_precision", "gradient_precision", "optimizer_state_precision", "logits_precision",
    "dropout_mask_precision", "softmax_statistic_precision", "fused_backward_products", "cross_entropy_kernels",
    "gemm_sustained_fraction", "gemm_ramp_depth", "gemm_ramp_rows", "cached_operand_bytes", "exposed_operand_fraction", "medium_tile_efficiency",
    "small_tile_efficiency", "smallest_tile_efficiency", "wave_quantization", "cores_sharing_tiles",
    "memory_bandwidth", "memory_bandwidth_efficiency", "bandwidth_ramp_bytes", "normalization_bandwidth_fraction",
    "kernel_overhead_time", "kernel_launch_time", "attention_forward_efficiency", "attention_backward_efficiency",
    "attention_ramp_length", "exposed_softmax_fraction", "vector_flop_rate", "overlap_slowdown_fraction",
    "inter_accelerator_ramp_bytes", "inter_node_ramp_bytes", "collective_overhead_time", "tree_bandwidth_fraction",
    "inter_accelerator_bandwidth", "inter_accelerator_efficiency", "inter_accelerator_latency",
    "number_of_network_cards_per_node", "bandwidth_per_network_card", "oversubscription",
    "number_of_accelerators_per_node", "inter_node_efficiency", "inter_node_latency", "overlap_tensor_communication",
    "overlap_pipeline_communication", "overlap_data_communication", "training_clock_fraction",
    "flash_1_attention_fraction", "flash_2_attention_fraction", "deterministic_kernel_fraction", "deterministic",
    "deterministic_attention_fraction", "attention_dropout_fraction", "attention_head_ramp", "streaming_traffic_factor",
    "fused_cross_entropy", "recomputation_stops_early", "host_time_per_layer", "host_time_per_step",
    "prefetched_sharding_fraction", "elementary_function_time", "random_number_time",
    *(f"{part}{kind}_parallel_degree" for kind in KINDS for part in ("", "intra_node_", "inter_node_")),
)  # fmt: skip
CHOICES = (
    "activation_recomputation",
    "positions",
    "collective_algorithm",
    "attention_kernel",
    "weight_gradient_accumulation",
)
H100 = {"system": "DGX H100", "accelerator": "H100 SXM"}
SMALL = {"model": "GPT-2 small", "batch_size": 16, "number_of_accelerators": 1, "tensor_parallel_degree": 1,
         "pipeline_parallel_degree": 1}  # fmt: skip
LLAMA = {"number_of_nodes": 16, "batch_size": 512}
CONFIGURATIONS = {
    "gpt3_as_shipped": ("default", {}),
    "gpt3_selective_with_sequence_parallelism": ("default",
        {"activation_recomputation": "selective", "sequence_parallel": True}),
    "gpt3_interleaved_without_recomputation": ("default",
        {"activation_recomputation": "none", "virtual_pipeline_stages": 3}),
    "gpt3_tensor_across_nodes": ("default", {"tensor_parallel_degree": 32, "dropout": 0}),
    "gpt3_nothing_hidden": ("default", {"overlap_tensor_communication": False, "collective_algorithm": "ring"}),
    "gpt3_hand_overs_hidden": (
        "default", {"overlap_pipeline_communication": True, "microbatch_size": 4, "exposed_bubble_fraction": 0.5,
                    "number_of_first_stage_layers": 9, "number_of_last_stage_layers": 9},
    ),
    "gpt3_fewer_layers_at_the_end": ("default",
        {"number_of_first_stage_layers": 14, "number_of_last_stage_layers": 10, "flash_attention": True}),
    "gpt3_trees_for_many_replicas": ("default",
        {"tensor_parallel_degree": 4, "zero_stage": 0, "collective_algorithm": "tree", "microbatch_size": 2}),
    "megatron_as_shipped": ("megatron-145.6B", {}),
    "llama_as_shipped": ("llama-3-70b", {}),
    "llama_whole_sequences_attended_in_tiers": ("llama-3-70b",
        {**LLAMA, "causal": False, "collective_algorithm": "hierarchical", "sequence_parallel": False}),
    "llama_weights_sharded": (
        "llama-3-70b", {**LLAMA, "zero_stage": 3, "tensor_parallel_degree": 1, "pipeline_parallel_degree": 1,
                        "activation_recomputation": "full", "virtual_pipeline_stages": 1},
    ),
    "llama_weights_sharded_in_two_nodes": (
        "llama-3-70b", {**LLAMA, "zero_stage": 3, "tensor_parallel_degree": 2, "pipeline_parallel_degree": 1,
                        "sharding_degree": 8, "virtual_pipeline_stages": 1},
    ),
    "llama_gradients_sharded_and_beside_passes": ("llama-3-70b",
        {**LLAMA, "zero_stage": 2, "pipeline_parallel_degree": 2, "overlap_data_communication": True}),
    "llama_key_heads_fewer_than_tensor_shares": (
        "llama-3-70b", {**LLAMA, "tensor_parallel_degree": 16, "flash_attention": False, "zero_stage": 1,
                        "activation_recomputation": "selective", "overlap_data_communication": True},
    ),
    "gpt3_by_eager_pytorch": ("default",
        {"software": "Composer FSDP", "tensor_parallel_degree": 2, "pipeline_parallel_degree": 2, "zero_stage": 1}),
    "gpt3_in_order_with_dropout": (
        "default", {"software": "Megatron-Core", **H100, "deterministic": True, "dropout": 0.1, "activation_recomputation": "full",
                    "weight_gradient_accumulation": "separate"},
    ),
    "llama_by_a_slow_host": ("llama-3-70b",
        {**LLAMA, "software": "PyTorch", "attention_kernel": "flash_1", "host_time_per_layer": "40 ms"}),
    "gpt2_on_one_a100": ("default", {**SMALL, "activation_recomputation": "none"}),
    "gpt2_on_one_h100_bound_by_launches": ("default",
        {**SMALL, **H100, "batch_size": 2, "flash_attention": True, "activation_recomputation": "none"}),
    "gpt2_on_something_like_a_processor": ("default", {**SMALL, "gemm_ramp_rows": 40, "wave_quantization": 0,
        "cached_operand_bytes": "20 MB", "exposed_operand_fraction": 0.75}),
    "gpt2_waiting_for_functions_and_random_numbers": ("default",
        {**SMALL, "elementary_function_time": "5 ps", "random_number_time": "20 ps", "dropout": 0.1, "flash_attention": False}),
    "gpt2_on_v100_replicas": ("default", {**SMALL, "accelerator": "V100", "system": "DGX-2", "batch_size": 64,
                                          "number_of_accelerators": 32}),
}  # fmt: skip


# Leaves that a plan may have no use for.
UNASKED = ("flash_1_attention_fraction", "flash_2_attention_fraction", "deterministic_kernel_fraction")


def leaf(estimate, name):
    return None if name in UNASKED and name not in estimate else estimate[name]


def leaves(estimate):
    """The twin's inputs: values that are given or looked up, degrees, and no result of the model."""
    p = {name: leaf(estimate, name) for name in LEAVES} | {name: estimate.choices[name] for name in CHOICES}
    p["matrix_peak_flop_rate"] = estimate[f"{estimate.choices['matrix_precision']}_peak_flop_rate"]
    p["optimizer_states_per_parameter"] = estimate["optimizer_states_per_parameter"]
    return p


@pytest.mark.parametrize("name", CONFIGURATIONS)
def test_twin_agrees_on(name):
    config, overrides = CONFIGURATIONS[name]
    estimate = amped.estimate(config, **overrides)
    parts = step(leaves(estimate))
    assert all(isfinite(seconds) for seconds in parts.values())
    assert {name: estimate[name] for name in parts} == pytest.approx(parts, rel=1e-9, abs=0)
    spent = fsum(seconds for name, seconds in parts.items() if "hidden" not in name)
    assert estimate["step_time"] == pytest.approx(spent, rel=1e-9)


def test_twin_sees_every_part_and_every_stage_at_work():
    """No part is zero in all configurations, and each stage paces in one, or the twin would have shown nothing."""
    at_work, paces = set(), {"first_stage_is_bottleneck", "last_stage_is_bottleneck"}
    for config, overrides in CONFIGURATIONS.values():
        estimate = amped.estimate(config, **overrides)
        parts = step(leaves(estimate))
        at_work |= {name for name in (*parts, *paces) if estimate[name] > 0}
        at_work |= {"middle stage"} if not any(estimate[name] for name in paces) else set()
    assert at_work == {*parts, *paces, "middle stage"}
