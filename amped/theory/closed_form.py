"""The closed form of AMPeD: every operation at one sustained rate, ring collectives inside the node, then across nodes.

What lies across nodes carries the share that the ring inside the node left to each accelerator, so its volume is
divided by the degree inside. Nothing overlaps with computation. Gradients leave latency out: they are few large
messages.
"""

import numpy as np

from amped.theory.conditions import OFFLOADED, ZERO_BUBBLE_H1, ZERO_BUBBLE_V
from amped.theory.kernel_work import contraction
from amped.theory.parallelisms import PARALLELISMS, shares
from amped.theory.quantity import ACCELERATOR, family, quantity, records
from amped.theory.records import CONTRACTIONS, Collective, Duration, total

# --- computation -----------------------------------------------------------------------------------------------------


@quantity("count")
def layer_passes(layers, multi_token_prediction_layers, pipeline_parallel_degree, number_of_microbatches_per_minibatch):
    """Times that an accelerator runs a layer forward in a step, on average over the stages. Source: definition."""
    return (layers + multi_token_prediction_layers) / pipeline_parallel_degree * number_of_microbatches_per_minibatch


@quantity("1/s", category=ACCELERATOR)
def nonlinear_operation_rate(vector_flop_rate, flops_per_nonlinear_operation):
    """Exponentials and the like in a second, from the vector rate.

    Source: CUDA C programming guide, throughput table.
    """
    return vector_flop_rate / flops_per_nonlinear_operation


@quantity(
    "1/s",
    category=ACCELERATOR,
    when_given=("nonlinear_functional_units_per_core", "nonlinear_operations_per_cycle_per_unit"),
)
def nonlinear_operation_rate__of_units(
    frequency, number_of_cores, nonlinear_functional_units_per_core, nonlinear_operations_per_cycle_per_unit
):
    """Exponentials and the like in a second, from the units that compute them. Source: AMPeD, nonlinear operations."""
    units = number_of_cores * nonlinear_functional_units_per_core
    return frequency * units * nonlinear_operations_per_cycle_per_unit


@quantity("count")
def multiply_accumulate_bit_slices(weight_precision, multiply_accumulate_unit_width):
    """Passes of a weight's bits through a matrix unit. Source: AMPeD, computation time."""
    return np.ceil(weight_precision / multiply_accumulate_unit_width)


@quantity("count")
def gradient_multiply_accumulate_bit_slices(weight_precision, gradient_precision, multiply_accumulate_unit_width):
    """Passes of the wider of weight and gradient through a matrix unit. Source: AMPeD, backward pass."""
    return np.ceil(np.maximum(weight_precision, gradient_precision) / multiply_accumulate_unit_width)


@quantity("count")
def nonlinear_bit_slices(activation_precision, nonlinear_unit_width):
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
def softmax_operations(microbatch_tokens, context, attention_heads, tensor_parallel_rows, attention_passes):
    """Exponentials of the softmax on one accelerator, forward, in a step. Source: AMPeD, nonlinear operations."""
    return microbatch_tokens * context * attention_heads / tensor_parallel_rows * attention_passes


@quantity("count")
def activation_function_operations(
    microbatch_tokens,
    feedforward_dimension,
    expert_feedforward_dimension,
    experts_per_token,
    shared_experts_feedforward_dimension,
    tensor_parallel_rows,
    dense_stage_layers,
    MoE_stage_layers,
    number_of_microbatches_per_minibatch,
):
    """Activation functions on one accelerator, forward, in a step: one for each hidden unit.

    Source: AMPeD, nonlinear operations.
    """
    mixture = experts_per_token * expert_feedforward_dimension + shared_experts_feedforward_dimension
    units = dense_stage_layers * feedforward_dimension + MoE_stage_layers * mixture
    return microbatch_tokens * number_of_microbatches_per_minibatch * units / tensor_parallel_rows


@records()
def layer_products(
    projection_gemms,
    attention_gemms,
    feedforward_gemms,
    expert_gemms,
    attentions_per_layer,
    dense_fraction,
    MoE_fraction,
    entry_costs,
):
    """The products of a layer, those of attention too, whatever kernel computes them.

    Source: AMPeD, computation time.
    """
    calls = (
        (attentions_per_layer, projection_gemms + attention_gemms),
        (dense_fraction, feedforward_gemms),
        (MoE_fraction, expert_gemms),
    )
    return tuple(
        operator
        for count, gemms in calls
        for gemm in gemms
        for operator in contraction(gemm, entry_costs[0], count=count, kind="batched_contraction")
    )


@family(
    PART=("layer", "embedding", "output_head"),
    OPERATORS=("layer_products", "embedding_operators", "output_head_operators"),
)
@records(choice="performance_model", value="amped")
def PART_durations__amped(
    OPERATORS,
    multiply_accumulate_time,
    multiply_accumulate_bit_slices,
    gradient_multiply_accumulate_bit_slices,
    flops_per_multiply_accumulate,
):
    """Time of each product at one rate, which no shape changes; nothing else takes time.

    Source: AMPeD, computation time.
    """
    one = multiply_accumulate_time / flops_per_multiply_accumulate
    slices = {"input_gradient": gradient_multiply_accumulate_bit_slices}
    return tuple(
        Duration(
            o.name, o.kind, o.phase,
            o.flops * one * slices.get(o.phase, multiply_accumulate_bit_slices) * float(o.kind in CONTRACTIONS),
            o.kernels, o.count,
        )
        for o in OPERATORS
    )  # fmt: skip


@quantity("s", choice="performance_model", value="amped")
def layer_forward_time__amped(
    layer_multiply_accumulates,
    multiply_accumulate_time,
    multiply_accumulate_bit_slices,
    softmax_operations,
    activation_function_operations,
    nonlinear_operation_time,
    nonlinear_bit_slices,
):
    """Forward time of a stage's layers, stage_layers · U_f. Source: AMPeD, computation time."""
    nonlinear = (softmax_operations + activation_function_operations) * nonlinear_operation_time * nonlinear_bit_slices
    return layer_multiply_accumulates * multiply_accumulate_time * multiply_accumulate_bit_slices + nonlinear


@quantity("s", choice="performance_model", value="amped")
def compute_forward_time__amped(
    layer_forward_time, output_head_multiply_accumulates, multiply_accumulate_time, multiply_accumulate_bit_slices
):
    """Forward time of layers and head. Source: AMPeD, computation time. Differs: AMPeD leaves the head out."""
    return (
        layer_forward_time
        + output_head_multiply_accumulates * multiply_accumulate_time * multiply_accumulate_bit_slices
    )


@quantity("s", choice="performance_model", value="amped")
def compute_backward_time__amped(
    layer_multiply_accumulates,
    output_head_multiply_accumulates,
    multiply_accumulate_time,
    gradient_multiply_accumulate_bit_slices,
    softmax_operations,
    activation_function_operations,
    nonlinear_operation_time,
    nonlinear_bit_slices,
):
    """Time of the gradients of all inputs, stage_layers · U_b: as many operations as forward.

    Source: AMPeD, backward pass.
    """
    nonlinear = (softmax_operations + activation_function_operations) * nonlinear_operation_time * nonlinear_bit_slices
    products = layer_multiply_accumulates + output_head_multiply_accumulates
    return products * multiply_accumulate_time * gradient_multiply_accumulate_bit_slices + nonlinear


@quantity("s", choice="performance_model", value="amped")
def weight_update_time__amped(
    layer_multiply_accumulates,
    output_head_multiply_accumulates,
    multiply_accumulate_time,
    multiply_accumulate_bit_slices,
):
    """Time of the gradients of all weights, stage_layers · U_w: products only. Source: AMPeD, weight update."""
    products = layer_multiply_accumulates + output_head_multiply_accumulates
    return products * multiply_accumulate_time * multiply_accumulate_bit_slices


@quantity("s", choice="performance_model", value="amped")
def recomputation_time__amped(
    layer_forward_time,
    recomputed_layer_fraction,
    recomputed_attention_core_fraction,
    attention_multiply_accumulates,
    multiply_accumulate_time,
    multiply_accumulate_bit_slices,
    softmax_operations,
    nonlinear_operation_time,
    nonlinear_bit_slices,
    recomputed_product_fraction,
    layer_multiply_accumulates,
):
    """Time to run layers forward again, or of each its scores, softmax and values, or a share of the other products.

    Source: arXiv 2205.05198, section 5. Differs: AMPeD has none.
    """
    core = attention_multiply_accumulates * multiply_accumulate_time * multiply_accumulate_bit_slices
    core = core + softmax_operations * nonlinear_operation_time * nonlinear_bit_slices
    products = recomputed_product_fraction * (layer_multiply_accumulates - attention_multiply_accumulates)
    again = recomputed_layer_fraction * layer_forward_time + recomputed_attention_core_fraction * core
    return again + products * multiply_accumulate_time * multiply_accumulate_bit_slices


@family(EXPERT_=("", "expert_"))
@quantity("byte", choice="performance_model", value="amped")
def optimizer_traffic_bytes_per_EXPERT_parameter__amped(
    weight_precision,
    gradient_precision,
    optimizer_states_per_parameter,
    optimizer_state_precision,
    EXPERT_weight_shards,
    EXPERT_gradient_shards,
    EXPERT_optimizer_state_shards,
):
    """Bytes that an optimizer step moves for a parameter: weight and states twice, the gradient once; ZeRO shares each.

    Source: definition. Differs: AMPeD has none.
    """
    weight, states = 2 * weight_precision, 2 * optimizer_states_per_parameter * optimizer_state_precision
    gradient = gradient_precision / EXPERT_gradient_shards
    return weight / EXPERT_weight_shards + gradient + states / EXPERT_optimizer_state_shards


@quantity("s", choice="performance_model", value="amped")
def optimizer_time__amped(
    non_expert_parameters_per_accelerator,
    expert_parameters_per_accelerator,
    optimizer_traffic_bytes_per_parameter,
    optimizer_traffic_bytes_per_expert_parameter,
    memory_bandwidth,
):
    """Time of an optimizer step on the stage that has most parameters. Source: definition. Differs: AMPeD has none."""
    shared = non_expert_parameters_per_accelerator * optimizer_traffic_bytes_per_parameter
    experts = expert_parameters_per_accelerator * optimizer_traffic_bytes_per_expert_parameter
    return (shared + experts) / memory_bandwidth


# --- tensor parallelism ----------------------------------------------------------------------------------------------


# --- messages --------------------------------------------------------------------------------------------------------

# Times that the payload goes round: gathered, scattered, or both.
ROUNDS = {"all_gather": 1, "reduce_scatter": 1, "all_reduce": 2, "broadcast": 1, "reduce": 1}
# Where rings run, and over which link.
LINKS = {"intra_node": "inter_accelerator_link", "inter_node": "inter_node_link"}


def ring_time(c, place, link, steps=1):
    """Time to go round the ring inside the node, or the ring across nodes with what the node left to each.

    `steps` is 0 where latency is left out. Source: Thakur et al., IJHPCA 19(1).
    """
    size, sharing = {"intra_node": (c.intra, 1.0), "inter_node": (c.inter, c.intra)}[place]
    return ROUNDS[c.kind] * link.time((size - 1) / size * c.volume / sharing, steps * (size - 1))


def rings_time(c, inside, across, steps=1):
    """Time to go round both rings, one after the other. Source: Thakur et al., IJHPCA 19(1)."""
    return ring_time(c, "intra_node", inside, steps) + ring_time(c, "inter_node", across, steps)


def all_to_all_time(c, inside, across):
    """Time of an all-to-all: the share for other nodes leaves over the cards, the rest stays inside.

    Source: AMPeD, mixture-of-experts communication.
    """
    near = inside.time((c.intra - 1) / c.group.degree * c.volume, c.intra - 1)
    return near + across.time((c.inter - 1) / c.inter * c.volume * c.crossing, c.inter - 1)


def send_time(c, inside, across, steps=1):
    """Time to hand a block to a neighbor, across nodes if any neighbor is there. Source: Hockney, 1994 (α–β)."""
    return np.where(c.inter > 1, across.time(c.volume, steps), inside.time(c.volume, steps) * (c.intra > 1))


TIMES = dict.fromkeys(ROUNDS, rings_time) | {"all_to_all": all_to_all_time, "send_receive": send_time}


@family(PLACE=tuple(LINKS), LINK=tuple(LINKS.values()), WHERE=("inside the node", "across nodes"))
@quantity("s", choice="performance_model", value="amped")
def PLACE_tensor_communication_time__amped(tensor_collectives, LINK, layer_passes, communication_rounds):
    """Time of tensor parallelism WHERE: ring all-reduces, across nodes of what the node left to do.

    Source: AMPeD, tensor-parallel communication WHERE.
    """
    once = total(c.count * ring_time(c, "PLACE", LINK[0]) for c in tensor_collectives)
    return once * layer_passes * communication_rounds


@quantity("s", choice="performance_model", value="amped")
def exposed_tensor_communication_time__amped(
    intra_node_tensor_communication_time, inter_node_tensor_communication_time
):
    """Time of tensor parallelism: inside, then across nodes. Source: AMPeD, tensor-parallel communication."""
    return intra_node_tensor_communication_time + inter_node_tensor_communication_time


@quantity("s", choice="performance_model", value="amped")
def exposed_pipeline_communication_time__amped(
    pipeline_collectives, inter_accelerator_link, inter_node_link, number_of_microbatches_per_minibatch
):
    """Time to hand activations and gradients over one stage boundary, across nodes if any boundary is.

    Source: AMPeD, pipeline communication. Differs: interleaving sends as often as there are chunks, which is left out.
    """
    (inside,), (across,) = inter_accelerator_link, inter_node_link
    once = total(c.count * send_time(c, inside, across, steps=0) for c in pipeline_collectives)
    return 2 * number_of_microbatches_per_minibatch * once


@family(KIND=("context", "expert"))
@quantity("s", choice="performance_model", value="amped")
def exposed_KIND_communication_time__amped(KIND_collectives, inter_accelerator_link, inter_node_link, layer_passes):
    """Time of KIND parallelism: its exchanges inside the node and across nodes, one after the other.

    Source: AMPeD, mixture-of-experts communication; arXiv 2310.01889; arXiv 2309.14509. Differs: AMPeD has no context
    parallelism.
    """
    (inside,), (across,) = inter_accelerator_link, inter_node_link
    return layer_passes * total(c.count * TIMES[c.kind](c, inside, across) for c in KIND_collectives)


# --- data parallelism ------------------------------------------------------------------------------------------------


@quantity("1")
def gradient_all_reduce_fraction(zero_stage):
    """Share of an all-reduce that the gradients need: with sharded weights its first half, the reduce-scatter.

    Source: arXiv 1910.02054, section 7. Differs: stage 2 may scatter gradients every micro-batch; here once a step.
    """
    return np.where(shares("weight", zero_stage), 0.5, 1.0)


@quantity("1")
def gathered_weight_fraction(zero_stage):
    """Share of the weights that each pass of each micro-batch gathers: all where they are sharded.

    Source: arXiv 1910.02054, section 7.2.2; arXiv 2304.11277 (FSDP). Differs: AMPeD multiplies the other communication
    by 1 + M, M = 0.5, which is nothing where there is none and the same for one micro-batch as for a hundred.
    """
    return np.where(shares("weight", zero_stage), 1.0, 0.0)


@family(
    STATE=("gradient", "weight"),
    KIND=("all_reduce", "all_gather"),
    FRACTION=("gradient_all_reduce_fraction", "gathered_weight_fraction"),
)
@records()
def STATE_collectives(
    non_expert_parameters_per_accelerator,
    expert_parameters_per_accelerator,
    STATE_precision,
    FRACTION,
    replica_group,
    expert_replica_group,
):
    """One KIND of the worst stage's STATE entries, and one of its experts'.

    Source: arXiv 2104.04473, section 3.3. Differs: a tied embedding's sum over the first and last stage, and hybrid
    sharding, are left out.
    """
    shared = non_expert_parameters_per_accelerator * STATE_precision
    experts = expert_parameters_per_accelerator * STATE_precision
    return (
        Collective("STATEs", "KIND", group=replica_group[0], volume=shared, count=FRACTION),
        Collective("expert_STATEs", "KIND", group=expert_replica_group[0], volume=experts, count=FRACTION),
    )


@family(PLACE=tuple(LINKS), LINK=tuple(LINKS.values()), WHERE=("inside the node", "across nodes"))
@quantity("s", choice="performance_model", value="amped")
def PLACE_gradient_communication_time__amped(gradient_collectives, LINK):
    """Time of the gradient all-reduce WHERE. Source: AMPeD, gradient all-reduce."""
    return total(c.count * ring_time(c, "PLACE", LINK[0], steps=0) for c in gradient_collectives)


@quantity("s", choice="performance_model", value="amped")
def weight_gathering_time__amped(
    weight_collectives,
    inter_accelerator_link,
    inter_node_link,
    number_of_microbatches_per_minibatch,
    communication_rounds,
):
    """Time to gather sharded weights, inside and then across nodes. Source: arXiv 1910.02054, section 7.2.2."""
    (inside,), (across,) = inter_accelerator_link, inter_node_link
    once = total(c.count * rings_time(c, inside, across, steps=0) for c in weight_collectives)
    return once * number_of_microbatches_per_minibatch * communication_rounds


@quantity("s", choice="performance_model", value="amped")
def exposed_data_communication_time__amped(
    intra_node_gradient_communication_time, inter_node_gradient_communication_time, weight_gathering_time
):
    """Time of data parallelism: gradients inside, then across nodes, and sharded weights.

    Source: AMPeD, gradient all-reduce.
    """
    gradients = intra_node_gradient_communication_time + inter_node_gradient_communication_time
    return gradients + weight_gathering_time


# --- the pipeline ----------------------------------------------------------------------------------------------------


@quantity("s")
def pipelined_work_time(
    compute_forward_time,
    compute_backward_time,
    recomputation_time,
    weight_update_time,
    exposed_tensor_communication_time,
):
    """Time of a stage's passes in a step, with what they wait for. Source: AMPeD, pipeline bubbles."""
    work = compute_forward_time + compute_backward_time + recomputation_time + weight_update_time
    return work + exposed_tensor_communication_time


@quantity("s", **ZERO_BUBBLE_H1)
def bubble_work_time__zero_bubble_h1(pipelined_work_time, compute_forward_time, weight_update_time):
    """What a stage waits for in ZB-H1: weight gradients fill what they can, F + B − W.

    Source: arXiv 2401.10241, table 2. Differs: where W is longer than F, it fills no more than F.
    """
    return pipelined_work_time - weight_update_time - np.minimum(weight_update_time, compute_forward_time)


@quantity("s", **ZERO_BUBBLE_V)
def bubble_work_time__zero_bubble_v(pipelined_work_time, compute_forward_time, weight_update_time):
    """What a stage waits for in a V: half an input gradient, or what of one no weight gradient covers.

    Source: arXiv 2405.15362, section 3; for input gradients no shorter than the other passes.
    """
    input_gradient = pipelined_work_time - weight_update_time - compute_forward_time
    return np.maximum(input_gradient / 2, input_gradient - weight_update_time)


@quantity("s", choice="performance_model", value="amped")
def pipeline_bubble_time__amped(
    exposed_bubble_fraction,
    pipeline_parallel_degree,
    microbatches_per_flush,
    virtual_pipeline_stages,
    bubble_work_time,
):
    """Time that stages wait for the first and the last micro-batch.

    Source: AMPeD, pipeline bubbles; arXiv 2104.04473, section 2.2. Differs: AMPeD's code divides the compute part by
    layers again.
    """
    idle = (pipeline_parallel_degree - 1) / (microbatches_per_flush * virtual_pipeline_stages)
    return exposed_bubble_fraction * idle * bubble_work_time


# --- what runs beside computation ------------------------------------------------------------------------------------


@family(KIND=PARALLELISMS)
@quantity("s", choice="performance_model", value="amped")
def hidden_KIND_communication_time__amped():
    """KIND-parallel communication that runs beside computation: none in the closed form.

    Source: AMPeD, training time.
    """
    return 0


# --- rules -----------------------------------------------------------------------------------------------------------


@quantity("boolean", constrains="performance_model", choice="performance_model", value="amped")
def the_closed_form_has_one_dimension__amped(tensor_parallel_columns, activations_on_a_grid):
    """The closed form has tensor parallelism in one dimension only. Source: AMPeD, tensor-parallel communication."""
    return (tensor_parallel_columns == 1) & (activations_on_a_grid == 0)


@quantity("boolean", constrains="optimizer_offload", choice="performance_model", value="amped", **OFFLOADED)
def the_closed_form_offloads_nothing__amped(optimizer_offload, activation_offload, weight_offload):
    """The closed form has no host: nothing is offloaded unless performance_model is operators. Source: definition."""
    return optimizer_offload + activation_offload + weight_offload == 0
