"""Time to compute, by the closed form of AMPeD: every operation at one sustained rate."""

import numpy as np

from amped.quantity import ACCELERATOR, MAPPING, parameter, quantity, selector
from amped.records import total


@selector("amped")
def performance_model():
    """Which formulas predict the time: amped, the closed form of the AMPeD paper.

    Source: Moolchandani et al., ISPASS 2023.
    """
    return "amped"


@selector("none", "selective", "full", "block", category=MAPPING)
def activation_recomputation():
    """What the backward pass computes again rather than keep; block: some layers in full. Source: arXiv 2205.05198."""
    return "none"


@parameter("count", category=MAPPING, at_least=0)
def number_of_recomputed_layers():
    """Layers of a stage that are recomputed in full when recomputation is by block.

    Source: Megatron-LM, --recompute-num-layers.
    """


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
def layer_multiply_accumulates(layer_gemms):
    """Multiply-accumulates of the layers on one accelerator, forward, in a step. Source: AMPeD, computation time."""
    return total(gemm.multiply_accumulates for gemm in layer_gemms)


@quantity("count")
def attention_multiply_accumulates(attention_gemms):
    """Multiply-accumulates of scores and values, the part of a layer that grows with the context squared.

    Source: AMPeD, computation time.
    """
    return total(gemm.multiply_accumulates for gemm in attention_gemms)


@quantity("count")
def head_multiply_accumulates(head_gemms):
    """Multiply-accumulates of the output head on one accelerator, forward, in a step.

    Source: arXiv 2104.04473, appendix.
    """
    return total(gemm.multiply_accumulates for gemm in head_gemms)


@quantity("count")
def softmax_operations(microbatch_tokens, context, attention_heads, tensor_parallel_degree, attention_calls):
    """Exponentials of the softmax on one accelerator, forward, in a step. Source: AMPeD, nonlinear operations."""
    return microbatch_tokens * context * attention_heads / tensor_parallel_degree * attention_calls


@quantity("count")
def activation_operations(
    microbatch_tokens, feedforward_dimension, expert_feedforward_dimension, experts_per_token,
    shared_experts_feedforward_dimension, tensor_parallel_degree, dense_stage_layers, MoE_stage_layers,
    number_of_microbatches_per_minibatch,
):  # fmt: skip
    """Activation functions on one accelerator, forward, in a step: one for each hidden unit.

    Source: AMPeD, nonlinear operations.
    """
    mixture = experts_per_token * expert_feedforward_dimension + shared_experts_feedforward_dimension
    units = dense_stage_layers * feedforward_dimension + MoE_stage_layers * mixture
    return microbatch_tokens * number_of_microbatches_per_minibatch * units / tensor_parallel_degree


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


@quantity("s", choice="activation_recomputation", value="none")
def recomputation_time__none(layer_forward_time):
    """Time to compute activations again: none are. Source: definition."""
    return 0 * layer_forward_time


@quantity("s", choice="activation_recomputation", value="full")
def recomputation_time__full(layer_forward_time):
    """Time to run the layers forward again. Source: arXiv 2205.05198, section 5. Differs: AMPeD has none."""
    return layer_forward_time


@quantity("s", choice="activation_recomputation", value="block")
def recomputation_time__block(layer_forward_time, number_of_recomputed_layers, stage_layers):
    """Time to run some of a stage's layers forward again. Source: Megatron-LM, --recompute-method block."""
    return layer_forward_time * number_of_recomputed_layers / stage_layers


@quantity("s", choice="activation_recomputation", value="selective")
def recomputation_time__selective(
    attention_multiply_accumulates, multiply_accumulate_time, multiply_accumulate_passes, softmax_operations,
    nonlinear_operation_time, nonlinear_passes,
):  # fmt: skip
    """Time to compute scores, softmax and values again.

    Source: arXiv 2205.05198, section 5. Differs: AMPeD has none.
    """
    products = attention_multiply_accumulates * multiply_accumulate_time * multiply_accumulate_passes
    return products + softmax_operations * nonlinear_operation_time * nonlinear_passes


@quantity("s", choice="performance_model", value="amped")
def optimizer_time__amped(weight_bytes, gradient_bytes, optimizer_state_bytes, memory_bandwidth):
    """Time to read gradients and read and write weights and optimizer states once.

    Source: definition. Differs: AMPeD has none.
    """
    return (2 * weight_bytes + gradient_bytes + 2 * optimizer_state_bytes) / memory_bandwidth
