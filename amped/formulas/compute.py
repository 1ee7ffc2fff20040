"""Time to compute, by the closed form of AMPeD: every operation at one sustained rate."""

import numpy as np

from amped.quantity import ACCELERATOR, parameter, quantity, selector
from amped.records import total


@selector("operators", "amped")
def performance_model():
    """Which formulas predict the time: of every operator, or the closed form of the AMPeD paper.

    Source: arXiv 2410.00273 (operators); Moolchandani et al., ISPASS 2023 (amped).
    """
    return "operators"


@parameter("1", category=ACCELERATOR, above=0, at_most=1)
def matrix_efficiency():
    """Share of the matrix peak that a training sustains in its products.

    Source: fitted to MLM21 Table 1, rows 18.4B, 76.1B and 310.1B on A100.
    """
    return 0.58


@parameter("byte", category=ACCELERATOR, bare="bit", above=0)
def multiply_accumulate_unit_width():
    """Widest operand that a matrix unit takes in one pass. Source: AMPeD's default, 32 bit."""
    return 4


@parameter("byte", category=ACCELERATOR, bare="bit", above=0)
def nonlinear_unit_width():
    """Widest operand that a nonlinear unit takes in one pass. Source: AMPeD's default, 32 bit."""
    return 4


@quantity("count")
def multiply_accumulate_passes(weight_precision, multiply_accumulate_unit_width):
    """Passes of a weight's bits through a matrix unit. Source: AMPeD, computation time."""
    return np.ceil(weight_precision / multiply_accumulate_unit_width)


@quantity("count")
def gradient_multiply_accumulate_passes(weight_precision, gradient_precision, multiply_accumulate_unit_width):
    """Passes of the wider of weight and gradient through a matrix unit. Source: AMPeD, backward pass."""
    return np.ceil(np.maximum(weight_precision, gradient_precision) / multiply_accumulate_unit_width)


@quantity("count")
def nonlinear_passes(activation_precision, nonlinear_unit_width):
    """Passes of an activation's bits through a nonlinear unit. Source: AMPeD, nonlinear operations."""
    return np.ceil(activation_precision / nonlinear_unit_width)


@quantity("s", choice="performance_model", value="amped")
def multiply_accumulate_time__amped(matrix_peak_flop_rate, flops_per_multiply_accumulate, matrix_efficiency):
    """Time of one multiply-accumulate, C_MAC.

    Source: AMPeD, computation time. Differs: the datasheet's peak in the format chosen stands before clock times units.
    """
    return flops_per_multiply_accumulate / (matrix_peak_flop_rate * matrix_efficiency)


@quantity("s", choice="performance_model", value="amped")
def nonlinear_operation_time__amped(nonlinear_operation_rate):
    """Time of one nonlinear operation, C_nonlin. Source: AMPeD, nonlinear operations."""
    return 1 / nonlinear_operation_rate


@quantity("count")
def dense_calls(dense_stage_layers, number_of_microbatches_per_minibatch):
    """Times that an accelerator runs a dense feed-forward network forward in a step. Source: definition."""
    return dense_stage_layers * number_of_microbatches_per_minibatch


@quantity("count")
def MoE_calls(MoE_stage_layers, number_of_microbatches_per_minibatch):
    """Times that an accelerator runs a mixture of experts forward in a step. Source: definition."""
    return MoE_stage_layers * number_of_microbatches_per_minibatch


@quantity("count")
def layer_multiply_accumulates(
    projection_gemms, attention_multiply_accumulates, feedforward_gemms, expert_gemms, attention_calls, dense_calls,
    MoE_calls,
):  # fmt: skip
    """Multiply-accumulates of the layers on one accelerator, forward, in a step. Source: AMPeD, computation time."""
    projections = total(gemm.multiply_accumulates for gemm in projection_gemms) * attention_calls
    dense = total(gemm.multiply_accumulates for gemm in feedforward_gemms) * dense_calls
    experts = total(gemm.multiply_accumulates for gemm in expert_gemms) * MoE_calls
    return projections + attention_multiply_accumulates + dense + experts


@quantity("count")
def surplus_expert_multiply_accumulates(expert_gemms, expert_load_factor, MoE_calls):
    """Multiply-accumulates of routed experts on one accelerator beyond those that its visits need, in a step.

    Source: arXiv 2006.16668, section 2.2 (places that nobody takes). Visits that are dropped are not counted.
    """
    _, up, down, *_ = expert_gemms
    return (
        (up.multiply_accumulates + down.multiply_accumulates) * MoE_calls * (1 - 1 / np.maximum(expert_load_factor, 1))
    )


@quantity("count")
def attention_multiply_accumulates(attention_gemms, attention_calls):
    """Multiply-accumulates of scores and values, the part of a layer that grows with the context squared.

    Source: AMPeD, computation time.
    """
    return total(gemm.multiply_accumulates for gemm in attention_gemms) * attention_calls


@quantity("count")
def head_multiply_accumulates(
    head_gemms, prediction_gemms, number_of_microbatches_per_minibatch, pipeline_parallel_degree,
    multi_token_prediction_layers,
):  # fmt: skip
    """Multiply-accumulates of the output head on one accelerator, forward, in a step, spread over the stages.

    Source: arXiv 2104.04473, appendix. Differs: in Megatron-LM the last stage has the head alone.
    """
    calls = number_of_microbatches_per_minibatch / pipeline_parallel_degree
    head = total(gemm.multiply_accumulates for gemm in head_gemms) * (1 + multi_token_prediction_layers)
    return (head + total(gemm.multiply_accumulates for gemm in prediction_gemms)) * calls


@quantity("count")
def softmax_operations(microbatch_tokens, context, attention_heads, tensor_parallel_rows, attention_calls):
    """Exponentials of the softmax on one accelerator, forward, in a step. Source: AMPeD, nonlinear operations."""
    return microbatch_tokens * context * attention_heads / tensor_parallel_rows * attention_calls


@quantity("count")
def activation_operations(
    microbatch_tokens, feedforward_dimension, expert_feedforward_dimension, experts_per_token,
    shared_experts_feedforward_dimension, tensor_parallel_rows, dense_stage_layers, MoE_stage_layers,
    number_of_microbatches_per_minibatch,
):  # fmt: skip
    """Activation functions on one accelerator, forward, in a step: one for each hidden unit.

    Source: AMPeD, nonlinear operations.
    """
    mixture = experts_per_token * expert_feedforward_dimension + shared_experts_feedforward_dimension
    units = dense_stage_layers * feedforward_dimension + MoE_stage_layers * mixture
    return microbatch_tokens * number_of_microbatches_per_minibatch * units / tensor_parallel_rows


@quantity("s", choice="performance_model", value="amped")
def layer_forward_time__amped(
    layer_multiply_accumulates, multiply_accumulate_time, multiply_accumulate_passes, softmax_operations,
    activation_operations, nonlinear_operation_time, nonlinear_passes,
):  # fmt: skip
    """Forward time of a stage's layers, stage_layers · U_f. Source: AMPeD, computation time."""
    nonlinear = (softmax_operations + activation_operations) * nonlinear_operation_time * nonlinear_passes
    return layer_multiply_accumulates * multiply_accumulate_time * multiply_accumulate_passes + nonlinear


@quantity("s", choice="performance_model", value="amped")
def compute_forward_time__amped(
    layer_forward_time, head_multiply_accumulates, multiply_accumulate_time, multiply_accumulate_passes
):
    """Forward time of layers and head. Source: AMPeD, computation time. Differs: AMPeD leaves the head out."""
    return layer_forward_time + head_multiply_accumulates * multiply_accumulate_time * multiply_accumulate_passes


@quantity("s", choice="performance_model", value="amped")
def compute_backward_time__amped(
    layer_multiply_accumulates, head_multiply_accumulates, multiply_accumulate_time,
    gradient_multiply_accumulate_passes, softmax_operations, activation_operations, nonlinear_operation_time,
    nonlinear_passes,
):  # fmt: skip
    """Time of the gradients of all inputs, stage_layers · U_b: as many operations as forward.

    Source: AMPeD, backward pass.
    """
    nonlinear = (softmax_operations + activation_operations) * nonlinear_operation_time * nonlinear_passes
    products = layer_multiply_accumulates + head_multiply_accumulates
    return products * multiply_accumulate_time * gradient_multiply_accumulate_passes + nonlinear


@quantity("s", choice="performance_model", value="amped")
def weight_update_time__amped(
    layer_multiply_accumulates, head_multiply_accumulates, multiply_accumulate_time, multiply_accumulate_passes
):
    """Time of the gradients of all weights, stage_layers · U_w: products only. Source: AMPeD, weight update."""
    products = layer_multiply_accumulates + head_multiply_accumulates
    return products * multiply_accumulate_time * multiply_accumulate_passes


@quantity("s", choice="performance_model", value="amped")
def recomputation_time__amped(
    layer_forward_time, recomputed_layer_fraction, recomputed_core_fraction, attention_multiply_accumulates,
    multiply_accumulate_time, multiply_accumulate_passes, softmax_operations, nonlinear_operation_time,
    nonlinear_passes, recomputed_product_fraction, layer_multiply_accumulates,
):  # fmt: skip
    """Time to run layers forward again, or of each its scores, softmax and values, or a share of the other products.

    Source: arXiv 2205.05198, section 5. Differs: AMPeD has none.
    """
    core = attention_multiply_accumulates * multiply_accumulate_time * multiply_accumulate_passes
    core = core + softmax_operations * nonlinear_operation_time * nonlinear_passes
    products = recomputed_product_fraction * (layer_multiply_accumulates - attention_multiply_accumulates)
    again = recomputed_layer_fraction * layer_forward_time + recomputed_core_fraction * core
    return again + products * multiply_accumulate_time * multiply_accumulate_passes


@quantity("byte", choice="performance_model", value="amped")
def optimizer_traffic_bytes_per_parameter__amped(
    weight_precision, gradient_precision, optimizer_states_per_parameter, optimizer_state_precision,
    weight_shards, gradient_shards, optimizer_state_shards,
):  # fmt: skip
    """Bytes of an optimizer step for a parameter: weight and states read and written, gradient read, each shared by ZeRO.

    Source: definition. Differs: AMPeD has none.
    """
    weight, states = 2 * weight_precision, 2 * optimizer_states_per_parameter * optimizer_state_precision
    return weight / weight_shards + gradient_precision / gradient_shards + states / optimizer_state_shards


@quantity("byte", choice="performance_model", value="amped")
def optimizer_traffic_bytes_per_expert_parameter__amped(
    weight_precision, gradient_precision, optimizer_states_per_parameter, optimizer_state_precision,
    expert_weight_shards, expert_gradient_shards, expert_optimizer_state_shards,
):  # fmt: skip
    """Bytes of an optimizer step for a parameter of a routed expert. Source: definition. Differs: AMPeD has none."""
    weight, states = 2 * weight_precision, 2 * optimizer_states_per_parameter * optimizer_state_precision
    return (
        weight / expert_weight_shards
        + gradient_precision / expert_gradient_shards
        + states / expert_optimizer_state_shards
    )


@quantity("s", choice="performance_model", value="amped")
def optimizer_time__amped(
    shared_parameters_per_accelerator, expert_parameters_per_accelerator, optimizer_traffic_bytes_per_parameter,
    optimizer_traffic_bytes_per_expert_parameter, memory_bandwidth,
):  # fmt: skip
    """Time of an optimizer step on the stage that has most parameters. Source: definition. Differs: AMPeD has none."""
    shared = shared_parameters_per_accelerator * optimizer_traffic_bytes_per_parameter
    experts = expert_parameters_per_accelerator * optimizer_traffic_bytes_per_expert_parameter
    return (shared + experts) / memory_bandwidth
