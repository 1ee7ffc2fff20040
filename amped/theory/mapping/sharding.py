"""Replicas of the parameters, where they are placed, and into how many shares ZeRO splits their states.

ZeRO stage 1 shards optimizer states, stage 2 also gradients, stage 3 also weights (FSDP). Hybrid sharding has sharding
groups that are smaller than all replicas.
"""

import numpy as np

from amped.theory.language.quantity import MAPPING, each_of, family, parameter, quantity
from amped.theory.nouns.divisors import largest_divisor
from amped.theory.nouns.parallelisms import COPYING
from amped.theory.nouns.records import product
from amped.theory.nouns.shardings import SHARDINGS, is_sharded, number_of_shards

# The prefixes of names: none for the shared parameters, expert_ for those of the routed experts.
EXPERT = ("", "expert_")
STATES = ("optimizer_state", "gradient", "weight")


@parameter("count", category=MAPPING, at_least=0, at_most=len(SHARDINGS) - 1)
def zero_stage():
    """The states that the replicas shard: 0 none, 1 optimizer states, 2 also gradients, 3 also weights.

    Source: arXiv 1910.02054, section 5.
    """
    return 0


# --- replicas --------------------------------------------------------------------------------------------------------


@quantity("count")
def expert_split_degree(expert_parallel_degree, expert_tensor_parallel_degree):
    """The number of shares into which model parallelism splits the routed experts of a layer.

    Source: arXiv 2006.16668, section 3.
    """
    return expert_parallel_degree * expert_tensor_parallel_degree


@each_of(KIND=COPYING)
@quantity("count")
def state_replicas(KIND_parallel_degree, tensor_parallel_degree, weight_split_degree):
    """The number of accelerators that hold copies of the same parameters, except routed experts.

    ZeRO can shard the states of these parameters over these accelerators.

    Source: arXiv 1910.02054, section 5.
    """
    return product(KIND_parallel_degree) * (tensor_parallel_degree / weight_split_degree)


@quantity("count")
def expert_state_replicas(state_replicas, weight_split_degree, expert_split_degree):
    """The number of accelerators that hold copies of the same routed experts.

    ZeRO can shard the states of these experts over these accelerators.

    Source: Megatron-Core, expert data parallelism.
    """
    return state_replicas * weight_split_degree / expert_split_degree


@family(
    named=(
        "intra_node_replicas",
        "inter_node_replicas",
    ),
    PLACE=("intra_node", "inter_node"),
    WHAT=("accelerators of a node", "nodes"),
    KIND=(COPYING, COPYING),
)
@quantity("count")
def PLACE_replicas(PLACE_KIND_parallel_degree, PLACE_weight_copies):
    """The number of WHAT that hold copies of the same parameters, except routed experts.

    Source: arXiv 1910.02054, section 5.
    """
    return product(PLACE_KIND_parallel_degree) * PLACE_weight_copies


@quantity("count")
def intra_node_expert_replicas(fast_domain_slots_for_expert, intra_node_expert_parallel_degree, expert_state_replicas):
    """The number of accelerators of a node that hold copies of the same routed experts.

    Source: Megatron-Core, expert data parallelism.
    """
    inside = np.maximum(fast_domain_slots_for_expert / intra_node_expert_parallel_degree, 1)
    return np.minimum(inside, np.maximum(expert_state_replicas, 1))


@quantity("count")
def inter_node_expert_replicas(expert_state_replicas, intra_node_expert_replicas):
    """The number of nodes that hold copies of the same routed experts.

    Source: Megatron-Core, expert data parallelism.
    """
    return np.maximum(expert_state_replicas, 1) / intra_node_expert_replicas


# --- shares ----------------------------------------------------------------------------------------------------------


@quantity("count")
def intra_node_shards(sharding_degree, intra_node_replicas):
    """The part of a sharding group inside the node.

    It is the largest divisor of the sharding degree that is at most the number of replicas in the node. Source: arXiv
    2304.11277, section 3.2.2.
    """
    return largest_divisor(sharding_degree, intra_node_replicas)


@quantity("count")
def inter_node_shards(sharding_degree, intra_node_shards):
    """The number of nodes of a sharding group. Source: arXiv 2304.11277, section 3.2.2."""
    return sharding_degree / intra_node_shards


@quantity("count")
def expert_sharding_degree(expert_state_replicas, sharding_degree, state_replicas):
    """The number of replicas of an expert that shard its states. Source: Megatron-Core, expert data parallelism."""
    return np.maximum(expert_state_replicas * sharding_degree / state_replicas, 1)


@family(
    named=(
        "optimizer_state_shards",
        "gradient_shards",
        "weight_shards",
        "expert_optimizer_state_shards",
        "expert_gradient_shards",
        "expert_weight_shards",
    ),
    EXPERT_=tuple(prefix for prefix in EXPERT for _ in STATES),
    STATE=STATES * len(EXPERT),
)
@quantity("count")
def EXPERT_STATE_shards(zero_stage, EXPERT_sharding_degree, *, state):
    """The number of shares into which ZeRO splits a STATE of an accelerator.

    Routed experts (names with expert_) and all other parameters have different sharding groups. Source: arXiv
    1910.02054, section 5.
    """
    return number_of_shards(state, zero_stage, EXPERT_sharding_degree)


# --- what is whole ---------------------------------------------------------------------------------------------------


@quantity("boolean")
def pipeline_states_are_whole(pipelines_keep_states_whole, pipeline_parallel_degree):
    """Whether sharded weights stay gathered and gradients are added up whole, because there is a pipeline.

    Source: PyTorch, distributed/pipelining/stage.py (backward_maybe_with_nosync).
    """
    return (pipelines_keep_states_whole > 0) & (pipeline_parallel_degree > 1)


@quantity("boolean")
def gradients_are_scattered_each_microbatch(zero_stage, whole_gradient_accumulation):
    """Whether the gradients of each micro-batch are reduce-scattered over the shards, instead of once a step.

    Source: arXiv 1910.02054, section 7.2.
    """
    return is_sharded("gradient", zero_stage) & (whole_gradient_accumulation == 0)


@quantity("boolean")
def gradients_delay_handovers(early_handover, gradients_are_scattered_each_microbatch, pipeline_parallel_degree):
    """Whether a stage exchanges the gradients of its weights before it hands the gradient of its input on.

    Source: pytorch/pytorch, pull request 165106.
    """
    return (early_handover == 0) & (gradients_are_scattered_each_microbatch == 0) & (pipeline_parallel_degree > 1)


@quantity("count")
def data_exchanges_per_step(gradients_delay_handovers, pipeline_flushes_per_step):
    """How often a step exchanges gradients and weights that are not exchanged for each micro-batch.

    It is once, or once for each run of the pipeline if a run ends with the exchange.

    Source: pytorch/pytorch, pull request 196641.
    """
    return np.where(gradients_delay_handovers, pipeline_flushes_per_step, 1)


@quantity("boolean")
def weights_are_gathered_each_microbatch(zero_stage, weights_stay_gathered):
    """Whether the weights of a layer are gathered for each micro-batch, instead of once a step.

    Source: arXiv 1910.02054, section 7.2.
    """
    return is_sharded("weight", zero_stage) & (weights_stay_gathered == 0)


@quantity("byte")
def whole_gradient_bytes_per_parameter(
    zero_stage, whole_gradient_accumulation, number_of_microbatches_per_minibatch, whole_gradient_precision
):
    """The bytes of a gradient that each replica adds up as a whole, although ZeRO shards gradients; else 0.

    It is 0 too if a step has one micro-batch, because then nothing is added up.

    Source: PyTorch, _fully_shard/_fsdp_param.py (unsharded_accumulated_grad).
    """
    is_whole = is_sharded("gradient", zero_stage) & (whole_gradient_accumulation > 0)
    return (is_whole & (number_of_microbatches_per_minibatch > 1)) * whole_gradient_precision


@quantity("byte")
def exchanged_gradient_precision(gradient_precision, whole_gradient_bytes_per_parameter):
    """The bytes of a gradient while replicas reduce it: its precision in the sum over the micro-batches.

    Source: PyTorch, fully_shard (reduce_dtype).
    """
    return np.where(whole_gradient_bytes_per_parameter > 0, whole_gradient_bytes_per_parameter, gradient_precision)


@quantity("byte")
def gradient_copy_bytes_per_parameter(narrow_gradients_stay, activation_precision, gradient_precision):
    """The bytes of a gradient in the precision of the backward pass, if it stays in memory after it is added up.

    It is zero if the sum has no wider precision, because then no copy is needed.

    Source: DeepSpeed, runtime/bf16_optimizer.py.
    """
    return narrow_gradients_stay * activation_precision * (gradient_precision > activation_precision)


@quantity("byte")
def passing_gradient_bytes_per_parameter(narrow_gradients_of_a_pass, activation_precision, gradient_precision):
    """The bytes of a gradient in the precision of a backward pass, which are freed when the pass has ended; else 0.

    Source: huggingface/nanotron, optim/gradient_accumulator.py (_accumulate_grad).
    """
    return narrow_gradients_of_a_pass * activation_precision * (gradient_precision > activation_precision)


@quantity("byte")
def weight_copy_bytes_per_parameter(zero_stage, weights_stay_gathered, weight_precision, sharding_degree):
    """The bytes of the whole weights that stay gathered beside an accelerator's shard, for one parameter; else 0.

    The weights that are gathered after a step of ZeRO 1 or 2 are the weights themselves. A buffer for this gather is
    bounded, and the activations are free at that time, so that it counts nothing.

    Source: PyTorch, fully_shard (reshard_after_forward); DeepSpeed, runtime/utils.py (all_gather_dp_groups) and
    runtime/zero/config.py (allgather_bucket_size: 500 million elements).
    """
    gathered = is_sharded("weight", zero_stage) * weights_stay_gathered
    return gathered * (sharding_degree > 1) * weight_precision


# --- rules -----------------------------------------------------------------------------------------------------------


@quantity("boolean", constrains="sharding_degree")
def sharding_groups_divide_the_replicas(sharding_degree, state_replicas):
    """The replicas are a whole number of sharding groups. Source: arXiv 2304.11277, section 3.2.2."""
    return np.mod(state_replicas, sharding_degree) == 0


@quantity("boolean", constrains="zero_stage")
def sharded_weights_are_not_pipelined(zero_stage, pipeline_parallel_degree, pipelined_weight_sharding):
    """ZeRO 3 shards weights only if there is a single pipeline stage, or if the framework can combine both.

    Source: Megatron-LM and DeepSpeed refuse the combination; torchtitan supports it.
    """
    return ~is_sharded("weight", zero_stage) | (pipeline_parallel_degree == 1) | (pipelined_weight_sharding > 0)
