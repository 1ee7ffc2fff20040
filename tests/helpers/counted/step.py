"""A step of AMPeD's closed-form model, counted: micro-batch by micro-batch, layer by layer, call by call.

Written from the paper and from docs/, not from the code, with which it shares nothing but names: `step` takes SI numbers
(bytes, seconds, flop/s) by canonical name and returns every part of a step and the rates.
"""

from math import ceil, fsum

from tests.helpers.counted.layers import (
    Values,
    attention_core_macs,
    is_recomputed,
    layer_macs,
    microbatch_tokens,
    nonlinear_operations,
    number_of_parameters,
    parameters_per_accelerator,
    softmax_operations,
)
from tests.helpers.counted.messages import communication


def computation(p: Values) -> dict[str, float]:
    tp, pp = p["tensor_parallel_degree"], p["pipeline_parallel_degree"]
    tokens = microbatch_tokens(p)
    mac = 2 / (p["matrix_peak_flop_rate"] * p["matrix_efficiency"])
    width = p["multiply_accumulate_unit_width"]
    mac_forward = mac * ceil(p["weight_precision"] / width)
    mac_backward = mac * ceil(max(p["weight_precision"], p["gradient_precision"]) / width)
    nonlinear = ceil(p["activation_precision"] / p["nonlinear_unit_width"]) / p["nonlinear_operation_rate"]

    forward, backward, update, again = [], [], [], []
    for _ in range(int(p["number_of_microbatches_per_minibatch"])):
        for layer in range(int(p["layers"])):
            macs, operations = layer_macs(p, layer, tokens), nonlinear_operations(p, layer, tokens)
            forward.append(mac_forward * macs + nonlinear * operations)
            backward.append(mac_backward * macs + nonlinear * operations)
            update.append(mac_forward * macs)  # only U_b is said to take the wider of weights and gradients
            if is_recomputed(p, layer):
                again.append(mac_forward * macs + nonlinear * operations)
            if p["activation_recomputation"] == "selective":
                core = attention_core_macs(p, tokens)
                again.append(mac_forward * core + nonlinear * softmax_operations(p, tokens))
        head = tokens * p["dimensionality"] * p["vocabulary_size"]
        forward.append(mac_forward * head)
        backward.append(mac_backward * head)
        update.append(mac_forward * head)
    return {
        "compute_forward_time": fsum(forward) / tp / pp,
        "compute_backward_time": fsum(backward) / tp / pp,
        "recomputation_time": fsum(again) / tp / pp,
        "weight_update_time": fsum(update) / tp / pp,
    }


def flops(p: Values) -> dict[str, float]:
    """Of the whole machine in a step, by the convention of Megatron-LM: all of attention counted."""
    tokens = p["batch_size"] * p["context"]
    macs = [layer_macs(p, i, tokens) for i in range(int(p["layers"]))]
    layers = fsum(macs)
    head = tokens * p["dimensionality"] * p["vocabulary_size"]
    again = fsum(macs[i] for i in range(int(p["layers"])) if is_recomputed(p, i))
    if p["activation_recomputation"] == "selective":
        again = attention_core_macs(p, tokens) * p["layers"]
    return {"model": 2 * 3 * (layers + head), "hardware": 2 * (3 * (layers + head) + again)}


def traffic(p: Values) -> float:
    """Bytes of an optimizer step on the stage that has most: weights and states are read and written, gradients read.

    ZeRO shares out states from stage 1 on, gradients from 2 on, weights from 3 on (arXiv 1910.02054, section 5).
    """
    shared, routed = parameters_per_accelerator(p)
    tensor_shares = p["tensor_parallel_degree"] / p["expert_tensor_parallel_degree"]
    same_experts = max(p["sharding_degree"] * tensor_shares / p["expert_parallel_degree"], 1)
    bytes_of_each = (
        (1, 2 * p["optimizer_states_per_parameter"] * p["optimizer_state_precision"]),
        (2, p["gradient_precision"]),
        (3, 2 * p["weight_precision"]),
    )
    moved = 0.0
    for stage, width in bytes_of_each:
        sharded = p["zero_stage"] >= stage
        moved += width * (shared / p["sharding_degree"] + routed / same_experts if sharded else shared + routed)
    return moved


def step(p: Values) -> dict[str, float]:
    """Every part of one training step."""
    pp = p["pipeline_parallel_degree"]
    result = computation(p) | communication(p)
    result["optimizer_time"] = traffic(p) / p["memory_bandwidth"]
    busy = fsum(
        result[name]
        for name in (
            "compute_forward_time", "compute_backward_time", "recomputation_time", "weight_update_time",
            "exposed_tensor_communication_time",
        )
    )  # fmt: skip
    chunks = p["number_of_microbatches_per_minibatch"] * p["virtual_pipeline_stages"]
    result["pipeline_bubble_time"] = p["exposed_bubble_fraction"] * (pp - 1) / chunks * busy
    result["step_time"] = fsum(seconds for name, seconds in result.items() if name.endswith("_time"))
    machine = p["data_parallel_degree"] * p["tensor_parallel_degree"] * pp * p["context_parallel_degree"]
    for kind, count in flops(p).items():
        result[f"{kind}_flop_rate_per_accelerator"] = count / machine / result["step_time"]
    result["number_of_parameters"] = number_of_parameters(p)
    return result
