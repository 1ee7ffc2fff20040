"""The closed form of AMPeD: all products run at one sustained rate; collectives are rings inside the node, then across.

The ring inside the node leaves to each accelerator an equal share of the payload. The message across nodes is therefore
the payload divided by the degree inside. No communication overlaps computation. Gradients have no latency, because they
are few large messages.
"""

import numpy as np

from amped.theory.language.quantity import ACCELERATOR, family, quantity, records
from amped.theory.nouns.conditions import CLOSED_FORM, DUALPIPE_V, OFFLOADED, ZERO_BUBBLE_H1, ZERO_BUBBLE_V
from amped.theory.nouns.kernel_work import contraction
from amped.theory.nouns.parallelisms import IN_LAYERS
from amped.theory.nouns.records import CONTRACTIONS, Collective, total
from amped.theory.nouns.shardings import is_sharded

# --- computation -----------------------------------------------------------------------------------------------------

# What other chapters and rooms may name; and the parameters that a config lists.
HANDS_ON = (
    "bubble_work_time",
    "layer_passes",
    "multiply_accumulate_time",
    "layer_products",
    "intra_node_tensor_communication_time",
    "inter_node_tensor_communication_time",
    "intra_node_gradient_communication_time",
    "inter_node_gradient_communication_time",
    "weight_gathering_time",
)


@quantity("count")
def layer_passes(layers, multi_token_prediction_layers, pipeline_parallel_degree, number_of_microbatches_per_minibatch):
    """The number of forward passes of layers that an accelerator runs in a step, on average over the stages.

    Source: definition.
    """
    return (layers + multi_token_prediction_layers) / pipeline_parallel_degree * number_of_microbatches_per_minibatch


@quantity("1/s", category=ACCELERATOR)
def nonlinear_operation_rate(vector_flop_rate, flops_per_nonlinear_operation):
    """The rate of exponentials and similar functions, from the rate of the vector units.

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
    """The rate of exponentials and similar functions, from the units that compute them.

    Source: AMPeD, nonlinear operations.
    """
    units = number_of_cores * nonlinear_functional_units_per_core
    return frequency * units * nonlinear_operations_per_cycle_per_unit


@quantity("count")
def multiply_accumulate_bit_slices(weight_precision, multiply_accumulate_unit_width):
    """The number of slices into which a matrix unit cuts the bits of a weight; it processes one slice after another.

    Source: AMPeD, computation time.
    """
    return np.ceil(weight_precision / multiply_accumulate_unit_width)


@quantity("count")
def gradient_multiply_accumulate_bit_slices(weight_precision, gradient_precision, multiply_accumulate_unit_width):
    """The number of slices into which a matrix unit cuts the bits of an operand of a gradient product.

    The operand is the weight or the gradient, whichever has more bits.

    Source: AMPeD, backward pass.
    """
    return np.ceil(np.maximum(weight_precision, gradient_precision) / multiply_accumulate_unit_width)


@quantity("count")
def nonlinear_bit_slices(activation_precision, nonlinear_unit_width):
    """The number of slices into which a nonlinear unit cuts the bits of an activation; it processes one after another.

    Source: AMPeD, nonlinear operations.
    """
    return np.ceil(activation_precision / nonlinear_unit_width)


@quantity("s", **CLOSED_FORM)
def multiply_accumulate_time__amped(matrix_peak_flop_rate, flops_per_multiply_accumulate, matrix_efficiency):
    """The time of one multiply-accumulate, which AMPeD calls C_MAC.

    Source: AMPeD, computation time. Differs: the formula uses the datasheet's peak rate of the chosen number format;
    AMPeD multiplies the clock by the number of units.
    """
    return flops_per_multiply_accumulate / (matrix_peak_flop_rate * matrix_efficiency)


@quantity("s", **CLOSED_FORM)
def nonlinear_operation_time__amped(nonlinear_operation_rate):
    """The time of one nonlinear operation, which AMPeD calls C_nonlin. Source: AMPeD, nonlinear operations."""
    return 1 / nonlinear_operation_rate


@quantity("count")
def softmax_operations(microbatch_tokens, context, attention_heads, tensor_parallel_rows, attention_passes):
    """The number of exponentials of the softmax on one accelerator, in the forward passes of a step.

    Source: AMPeD, nonlinear operations.
    """
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
    """The number of times that one accelerator computes an activation function in the forward passes of a step.

    Each hidden unit of a feed-forward network computes it once for each token.

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
    linear_attention_gemms,
    attentions_per_layer,
    linear_attention_fraction,
    dense_fraction,
    MoE_fraction,
    entry_costs,
):
    """The matrix products of a layer. Those of attention count, whether they run in one fused kernel or in several.

    The chunks of linear attention are missing.

    Source: AMPeD, computation time.
    """
    calls = (
        (attentions_per_layer, projection_gemms + attention_gemms),
        (linear_attention_fraction, linear_attention_gemms),
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
    named=(
        "layer_durations__amped",
        "embedding_durations__amped",
        "output_head_durations__amped",
        "tower_durations__amped",
    ),
    PART=("layer", "embedding", "output_head", "tower"),
    OPERATORS=("layer_products", "embedding_operators", "output_head_operators", "tower_operators"),
)
@records(**CLOSED_FORM)
def PART_durations__amped(
    OPERATORS,
    multiply_accumulate_time,
    multiply_accumulate_bit_slices,
    gradient_multiply_accumulate_bit_slices,
    flops_per_multiply_accumulate,
):
    """The time of each matrix product of the PART. All products run at the same rate; other operators take no time.

    Source: AMPeD, computation time.
    """
    time_per_flop = multiply_accumulate_time / flops_per_multiply_accumulate
    slices = {"input_gradient": gradient_multiply_accumulate_bit_slices}
    times = (
        time_per_flop
        * slices.get(operator.phase, multiply_accumulate_bit_slices)
        * float(operator.kind in CONTRACTIONS)
        for operator in OPERATORS
    )
    return tuple(operator.lasting(operator.flops * time) for operator, time in zip(OPERATORS, times, strict=True))


@quantity("s")
def layer_nonlinear_time(
    softmax_operations, activation_function_operations, nonlinear_operation_time, nonlinear_bit_slices
):
    """The time of the nonlinear operations of the layers of a stage, in the forward passes of a step.

    Source: AMPeD, nonlinear operations.
    """
    return (softmax_operations + activation_function_operations) * nonlinear_operation_time * nonlinear_bit_slices


@quantity("s", **CLOSED_FORM)
def layer_forward_time__amped(
    layer_multiply_accumulates, multiply_accumulate_time, multiply_accumulate_bit_slices, layer_nonlinear_time
):
    """The forward time of the layers of a stage in a step: the time of the products and of the nonlinear operations.

        products · C_MAC · (bit slices of a weight) + nonlinear operations · C_nonlin · (bit slices of an activation)

    C_MAC and C_nonlin are the times of one multiply-accumulate and of one nonlinear operation. AMPeD calls the forward
    time of one layer U_f.

    Source: AMPeD, computation time.
    """
    return layer_multiply_accumulates * multiply_accumulate_time * multiply_accumulate_bit_slices + layer_nonlinear_time


@quantity("s", **CLOSED_FORM)
def compute_forward_time__amped(
    layer_forward_time, output_head_multiply_accumulates, multiply_accumulate_time, multiply_accumulate_bit_slices
):
    """The forward time of the layers of a stage and of the output head, in a step.

    Source: AMPeD, computation time. Differs: AMPeD leaves the output head out.
    """
    return (
        layer_forward_time
        + output_head_multiply_accumulates * multiply_accumulate_time * multiply_accumulate_bit_slices
    )


@quantity("s", **CLOSED_FORM)
def compute_backward_time__amped(
    layer_multiply_accumulates,
    output_head_multiply_accumulates,
    multiply_accumulate_time,
    gradient_multiply_accumulate_bit_slices,
    layer_nonlinear_time,
):
    """The time to compute the gradients of all activations in a step: as many operations as in the forward passes.

    AMPeD calls this time, for one layer, U_b.

    Source: AMPeD, backward pass.
    """
    products = layer_multiply_accumulates + output_head_multiply_accumulates
    return products * multiply_accumulate_time * gradient_multiply_accumulate_bit_slices + layer_nonlinear_time


@quantity("s", **CLOSED_FORM)
def weight_update_time__amped(
    layer_multiply_accumulates,
    output_head_multiply_accumulates,
    multiply_accumulate_time,
    multiply_accumulate_bit_slices,
):
    """The time to compute the gradients of all weights in a step: as many matrix products as in the forward passes.

    AMPeD calls this time, for one layer, U_w.

    Source: AMPeD, weight update.
    """
    products = layer_multiply_accumulates + output_head_multiply_accumulates
    return products * multiply_accumulate_time * multiply_accumulate_bit_slices


@quantity("s")
def attention_core_forward_time(
    attention_multiply_accumulates,
    multiply_accumulate_time,
    multiply_accumulate_bit_slices,
    softmax_operations,
    nonlinear_operation_time,
    nonlinear_bit_slices,
):
    """The forward time of the attention cores (scores, softmax and weighted values) of a stage in a step.

    A unit processes the bits of an operand in slices, one after another; each slice takes the time of one operation.

    Source: AMPeD, computation time.
    """
    core = attention_multiply_accumulates * multiply_accumulate_time * multiply_accumulate_bit_slices
    return core + softmax_operations * nonlinear_operation_time * nonlinear_bit_slices


@quantity("s", **CLOSED_FORM)
def recomputation_time__amped(
    layer_forward_time,
    attention_core_forward_time,
    recomputed_layer_fraction,
    recomputed_attention_core_fraction,
    recomputed_product_fraction,
    layer_multiply_accumulates,
    attention_multiply_accumulates,
    multiply_accumulate_time,
    multiply_accumulate_bit_slices,
):
    """The time to recompute activations in a step.

    It is the sum of three parts: the recomputed shares of whole layers, of attention cores (scores, softmax and
    weighted values), and of the products with weights.

    Source: arXiv 2205.05198, section 5. Differs: AMPeD has no recomputation.
    """
    products = recomputed_product_fraction * (layer_multiply_accumulates - attention_multiply_accumulates)
    repeated = (
        recomputed_layer_fraction * layer_forward_time
        + recomputed_attention_core_fraction * attention_core_forward_time
    )
    return repeated + products * multiply_accumulate_time * multiply_accumulate_bit_slices


@family(
    named=(
        "optimizer_traffic_bytes_per_parameter__amped",
        "optimizer_traffic_bytes_per_expert_parameter__amped",
    ),
    EXPERT_=("", "expert_"),
)
@quantity("byte", **CLOSED_FORM)
def optimizer_traffic_bytes_per_EXPERT_parameter__amped(
    weight_precision,
    gradient_precision,
    optimizer_bytes_per_parameter,
    EXPERT_weight_shards,
    EXPERT_gradient_shards,
    EXPERT_optimizer_state_shards,
):
    """The bytes that an optimizer step moves for one EXPERT_parameter of an accelerator.

    The step reads and writes the weight and the states, and reads the gradient. ZeRO shards each of them. Source:
    definition. Differs: AMPeD has no optimizer.
    """
    weight, states = 2 * weight_precision, 2 * optimizer_bytes_per_parameter
    gradient = gradient_precision / EXPERT_gradient_shards
    return weight / EXPERT_weight_shards + gradient + states / EXPERT_optimizer_state_shards


@quantity("s", **CLOSED_FORM)
def optimizer_time__amped(
    non_expert_parameters_per_accelerator,
    expert_parameters_per_accelerator,
    optimizer_traffic_bytes_per_parameter,
    optimizer_traffic_bytes_per_expert_parameter,
    memory_bandwidth,
):
    """The time of an optimizer step on the stage that has the most parameters.

    Source: definition. Differs: AMPeD has no optimizer.
    """
    shared = non_expert_parameters_per_accelerator * optimizer_traffic_bytes_per_parameter
    experts = expert_parameters_per_accelerator * optimizer_traffic_bytes_per_expert_parameter
    return (shared + experts) / memory_bandwidth


# --- messages --------------------------------------------------------------------------------------------------------

# How many times the payload passes around a ring: once to gather or to scatter, twice for both.
ROUNDS = {"all_gather": 1, "reduce_scatter": 1, "all_reduce": 2, "broadcast": 1, "reduce": 1}
# The place of each ring, and the link that it uses.
LINKS = {"intra_node": "inter_accelerator_link", "inter_node": "inter_node_link"}


def ring_time(collective, place, link, steps=1):
    """The time of a collective that passes shares around a ring: the ring inside the node, or the ring across nodes.

        rounds · ((n − 1)/n · volume / sharing / bandwidth + steps · (n − 1) · latency)

    n is the number of accelerators or of nodes in the ring. An all-reduce has 2 rounds, every other collective 1.
    `sharing` is 1 inside the node; across nodes it is the number of accelerators of the group in a node, each of which
    sends an equal part. `place` is intra_node or inter_node. `steps` is 1, or 0 to leave latency out.

    Source: Thakur et al., IJHPCA 19(1).
    """
    size, sharing = {"intra_node": (collective.intra, 1.0), "inter_node": (collective.inter, collective.intra)}[place]
    return ROUNDS[collective.kind] * link.time((size - 1) / size * collective.volume / sharing, steps * (size - 1))


def rings_time(collective, inside, across, steps=1):
    """The time of both rings, inside the node and across nodes, one after the other.

    Args:
        collective: the collective.
        inside: the link inside the node.
        across: the link across nodes.
        steps: 1, or 0 to leave latency out.

    Source: Thakur et al., IJHPCA 19(1).
    """
    return ring_time(collective, "intra_node", inside, steps) + ring_time(collective, "inter_node", across, steps)


def all_to_all_time(collective, inside, across):
    """The time of an all-to-all.

    First each accelerator sends the messages for other nodes over the network cards, then the messages for its own node
    over the links inside the node.

    Args:
        collective: the collective.
        inside: the link inside the node.
        across: the link across nodes.

    Source: AMPeD, mixture-of-experts communication.
    """
    near = inside.time((collective.intra - 1) / collective.group.degree * collective.volume, collective.intra - 1)
    return near + across.time(
        (collective.inter - 1) / collective.inter * collective.volume * collective.crossing, collective.inter - 1
    )


def send_time(collective, inside, across, steps=1):
    """The time to send a payload to a neighbor: over links across nodes if the group has several nodes, else inside.

    Args:
        collective: the collective.
        inside: the link inside the node.
        across: the link across nodes.
        steps: 1, or 0 to leave latency out.

    Source: Hockney, 1994 (α–β).
    """
    return np.where(
        collective.inter > 1,
        across.time(collective.volume, steps),
        inside.time(collective.volume, steps) * (collective.intra > 1),
    )


TIMES = dict.fromkeys(ROUNDS, rings_time) | {"all_to_all": all_to_all_time, "send_receive": send_time}


@family(
    named=(
        "intra_node_tensor_communication_time__amped",
        "inter_node_tensor_communication_time__amped",
    ),
    PLACE=tuple(LINKS),
    LINK=tuple(LINKS.values()),
    WHERE=("inside the node", "across nodes"),
)
@quantity("s", **CLOSED_FORM)
def PLACE_tensor_communication_time__amped(tensor_collectives, LINK, layer_passes, communication_rounds, *, place):
    """The time of tensor-parallel communication WHERE, in a step.

    The ring inside the node comes first. In the ring across nodes, each accelerator of a node sends an equal part.

    Source: AMPeD, tensor-parallel communication WHERE.
    """
    per_pass = total(collective.count * ring_time(collective, place, LINK[0]) for collective in tensor_collectives)
    return per_pass * layer_passes * communication_rounds


@quantity("s", **CLOSED_FORM)
def exposed_tensor_communication_time__amped(
    intra_node_tensor_communication_time, inter_node_tensor_communication_time
):
    """The tensor-parallel communication time of a step: inside the node, then across nodes.

    Source: AMPeD, tensor-parallel communication.
    """
    return intra_node_tensor_communication_time + inter_node_tensor_communication_time


@quantity("s", **CLOSED_FORM)
def exposed_pipeline_communication_time__amped(
    pipeline_collectives, inter_accelerator_link, inter_node_link, number_of_microbatches_per_minibatch
):
    """The time in a step to send activations and gradients from one stage to the next.

    The messages cross nodes if the pipeline spans several nodes. Source: AMPeD, pipeline communication. Differs: with
    several chunks of layers on a stage, each chunk would send once; here each micro-batch is sent once.
    """
    (inside,), (across,) = inter_accelerator_link, inter_node_link
    send = total(
        collective.count * send_time(collective, inside, across, steps=0) for collective in pipeline_collectives
    )
    return 2 * number_of_microbatches_per_minibatch * send


@family(
    named=(
        "exposed_context_communication_time__amped",
        "exposed_expert_communication_time__amped",
    ),
    KIND=tuple(kind for kind in IN_LAYERS if kind != "tensor"),
)
@quantity("s", **CLOSED_FORM)
def exposed_KIND_communication_time__amped(KIND_collectives, inter_accelerator_link, inter_node_link, layer_passes):
    """The KIND-parallel communication time of a step: inside the node and across nodes, one after the other.

    Source: AMPeD, mixture-of-experts communication; arXiv 2310.01889, section 3; arXiv 2309.14509, section 3. Differs:
    AMPeD has no context parallelism.
    """
    (inside,), (across,) = inter_accelerator_link, inter_node_link
    return layer_passes * total(
        collective.count * TIMES[collective.kind](collective, inside, across) for collective in KIND_collectives
    )


# --- data parallelism ------------------------------------------------------------------------------------------------


@quantity("1")
def gradient_all_reduce_fraction(zero_stage):
    """The share of an all-reduce that the gradients need: 1, or 1/2 if weights are sharded.

    Sharded weights need only a reduce-scatter of the gradients, which is half of an all-reduce. Source: arXiv
    1910.02054, section 7. Differs: ZeRO stage 2 may scatter gradients for every micro-batch; here they are scattered
    once a step.
    """
    return np.where(is_sharded("weight", zero_stage), 0.5, 1.0)


@quantity("1")
def gathered_weight_fraction(zero_stage):
    """The share of the weights that each pass of each micro-batch gathers: all if they are sharded, else none.

    Source: arXiv 1910.02054, section 7.2.2; arXiv 2304.11277 (FSDP), section 3.2.1. Differs: AMPeD does not
    model the gathering of weights. It multiplies the time of all other communication by 1.5 instead. This extra time is
    zero without other communication, and does not grow with the number of micro-batches.
    """
    return np.where(is_sharded("weight", zero_stage), 1.0, 0.0)


@family(
    named=(
        "gradient_collectives",
        "weight_collectives",
    ),
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
    *,
    kind,
    state,
):
    """The collectives that exchange the STATEs between replicas, each a KIND, for the stage with the most parameters.

    One collective is for the routed experts, and one is for all other parameters. Source: arXiv 2104.04473, section
    3.3. Differs: the sum of a tied embedding over the first and last stage, and hybrid sharding, are left out.
    """
    shared = non_expert_parameters_per_accelerator * STATE_precision
    experts = expert_parameters_per_accelerator * STATE_precision
    return (
        Collective(f"{state}s", kind, group=replica_group[0], volume=shared, count=FRACTION),
        Collective(f"expert_{state}s", kind, group=expert_replica_group[0], volume=experts, count=FRACTION),
    )


@family(
    named=(
        "intra_node_gradient_communication_time__amped",
        "inter_node_gradient_communication_time__amped",
    ),
    PLACE=tuple(LINKS),
    LINK=tuple(LINKS.values()),
    WHERE=("inside the node", "across nodes"),
)
@quantity("s", **CLOSED_FORM)
def PLACE_gradient_communication_time__amped(gradient_collectives, LINK, *, place):
    """The time of the gradient all-reduce WHERE, in a step. Source: AMPeD, gradient all-reduce."""
    return total(
        collective.count * ring_time(collective, place, LINK[0], steps=0) for collective in gradient_collectives
    )


@quantity("s", **CLOSED_FORM)
def weight_gathering_time__amped(
    weight_collectives,
    inter_accelerator_link,
    inter_node_link,
    number_of_microbatches_per_minibatch,
    communication_rounds,
):
    """The time to gather sharded weights in a step, inside the node and then across nodes.

    Source: arXiv 1910.02054, section 7.2.2.
    """
    (inside,), (across,) = inter_accelerator_link, inter_node_link
    per_pass = total(
        collective.count * rings_time(collective, inside, across, steps=0) for collective in weight_collectives
    )
    return per_pass * number_of_microbatches_per_minibatch * communication_rounds


@quantity("s", **CLOSED_FORM)
def exposed_data_communication_time__amped(
    intra_node_gradient_communication_time, inter_node_gradient_communication_time, weight_gathering_time
):
    """The data-parallel communication time of a step: to all-reduce gradients, and to all-gather sharded weights.

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
    """The time of the passes of a stage in a step, with recomputation and tensor-parallel communication.

    Source: AMPeD, pipeline bubbles.
    """
    work = compute_forward_time + compute_backward_time + recomputation_time + weight_update_time
    return work + exposed_tensor_communication_time


@quantity("s", **ZERO_BUBBLE_H1)
def bubble_work_time__zero_bubble_h1(pipelined_work_time, compute_forward_time, weight_update_time):
    """The work that the bubble of the schedule ZB-H1 is a share of: F + B − W.

    The bubble is (p − 1)/(m·v) times this work, with p stages, m micro-batches and v chunks of layers on a stage. F, B
    and W are the times of forward passes, input gradients and weight gradients in a step. Weight gradients fill the
    bubble as far as they can.

    Source: arXiv 2401.10241, table 2. Differs: if W is longer than F, the weight gradients fill only F.
    """
    return pipelined_work_time - weight_update_time - np.minimum(weight_update_time, compute_forward_time)


@quantity("s", **ZERO_BUBBLE_V)
def bubble_work_time__zero_bubble_v(pipelined_work_time, compute_forward_time, weight_update_time):
    """The work that the bubble of the V-shaped schedule is a share of: max(B/2, B − W).

    The bubble is (p − 1)/(m·v) times this work, with p stages, m micro-batches and v chunks of layers on a stage. B and
    W are the times of input gradients and weight gradients in a step. Assumes that B is at least as long as the other
    passes.

    Source: arXiv 2405.15362, section 3.
    """
    input_gradient = pipelined_work_time - weight_update_time - compute_forward_time
    return np.maximum(input_gradient / 2, input_gradient - weight_update_time)


@quantity("s", **DUALPIPE_V)
def bubble_work_time__dualpipe_v(pipelined_work_time, compute_forward_time, weight_update_time):
    """The work that the bubble of DualPipeV is a share of: (F + B + min(F, B) − W) / 2.

    The bubble is (p − 1)/(m·v) times this work, with p stages, m micro-batches and v chunks of layers on a stage. F, B
    and W are the times of forward passes, input gradients and weight gradients in a step.

    Source: deepseek-ai/DualPipe, README (bubble of DualPipeV). Differs: if B is longer than F, the first pair is not
    joined on the last stage, which saves more here than for many stages.
    """
    forward, input_gradient = compute_forward_time, pipelined_work_time - weight_update_time - compute_forward_time
    return (pipelined_work_time - 2 * weight_update_time + np.minimum(forward, input_gradient)) / 2


@quantity("s", **CLOSED_FORM)
def pipeline_bubble_time__amped(
    exposed_bubble_fraction,
    pipeline_parallel_degree,
    microbatches_per_flush,
    virtual_pipeline_stages,
    bubble_work_time,
):
    """The time of a step in which stages wait for the first and the last micro-batches.

    With p stages, m micro-batches before each flush, and v chunks of layers on a stage:

        exposed_bubble_fraction · bubble_work_time · (p − 1) / (m · v)

    Source: AMPeD, pipeline bubbles; arXiv 2104.04473, section 2.2. Differs: AMPeD's code divides the compute part by
    the number of layers once more.
    """
    idle = (pipeline_parallel_degree - 1) / (microbatches_per_flush * virtual_pipeline_stages)
    return exposed_bubble_fraction * idle * bubble_work_time


# --- rules -----------------------------------------------------------------------------------------------------------


@quantity("boolean", constrains="performance_model", **CLOSED_FORM)
def the_closed_form_has_one_dimension__amped(tensor_parallel_columns, activations_on_a_grid):
    """The closed form has tensor parallelism in one dimension only. Source: AMPeD, tensor-parallel communication."""
    return (tensor_parallel_columns == 1) & (activations_on_a_grid == 0)


@quantity("boolean", constrains="optimizer_offload", **CLOSED_FORM, **OFFLOADED)
def the_closed_form_offloads_nothing__amped(optimizer_offload, activation_offload, weight_offload):
    """The closed form has no offload to the host: offload needs the performance_model operators. Source: definition."""
    return optimizer_offload + activation_offload + weight_offload == 0
