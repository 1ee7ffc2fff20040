"""Rules that every mapping must keep: booleans that must be true, each with the number to change if it is false.

`amped explore` drops mappings that break a rule. `amped estimate` names the rule, its values and the nearest values
that keep it. A rule about one topic stands on the page of that topic.
"""

import numpy as np

from amped.theory.language.quantity import each_of, family, quantity
from amped.theory.nouns.parallelisms import OF_A_STAGE, OF_TOKENS, PARALLELISMS, PLACED, in_words
from amped.theory.nouns.records import product

# The placed parallelisms without data parallelism, which takes what the others leave.
BUT_DATA = tuple(kind for kind in PLACED if kind != "data")


@family(
    named=(
        "tensor_degree_is_the_product_of_its_parts",
        "pipeline_degree_is_the_product_of_its_parts",
        "data_degree_is_the_product_of_its_parts",
        "context_degree_is_the_product_of_its_parts",
        "expert_degree_is_the_product_of_its_parts",
    ),
    KIND=PARALLELISMS,
)
@quantity("boolean", constrains="KIND_parallel_degree")
def KIND_degree_is_the_product_of_its_parts(
    KIND_parallel_degree, intra_node_KIND_parallel_degree, inter_node_KIND_parallel_degree
):
    """The KIND-parallel degree is its part inside the node times its part across nodes, which is a whole number.

    Source: definition.
    """
    is_whole = np.mod(inter_node_KIND_parallel_degree, 1) == 0
    return is_whole & (KIND_parallel_degree == intra_node_KIND_parallel_degree * inter_node_KIND_parallel_degree)


@family(OTHER=(BUT_DATA,), NAMES=(in_words(BUT_DATA),))
@quantity("boolean", constrains="tensor_parallel_degree")
def the_accelerators_divide_by_the_other_degrees(number_of_accelerators, OTHER_parallel_degree):
    """The accelerators divided by the NAMES degrees are a whole data-parallel degree.

    Source: arXiv 2104.04473, section 3.1.
    """
    return np.mod(number_of_accelerators, product(OTHER_parallel_degree)) == 0


@family(KIND=(PLACED,), NAMES=(in_words(PLACED),))
@quantity("boolean", constrains="data_parallel_degree")
def degrees_multiply_to_the_number_of_accelerators(KIND_parallel_degree, number_of_accelerators):
    """The product of the NAMES degrees is the number of accelerators.

    Source: arXiv 2104.04473, section 3.1.
    """
    return product(KIND_parallel_degree) == number_of_accelerators


@quantity("boolean", constrains="number_of_accelerators")
def the_cluster_has_the_accelerators(number_of_accelerators, number_of_nodes, number_of_accelerators_per_node):
    """The servers have at least as many accelerators as the run needs. Source: definition."""
    return number_of_accelerators <= number_of_nodes * number_of_accelerators_per_node


@each_of(KIND=PLACED)
@quantity("boolean", constrains="intra_node_tensor_parallel_degree")
def the_fast_domain_holds_the_inner_degrees(intra_node_KIND_parallel_degree, scale_up_domain_size):
    """The product of the degrees inside the node is at most the size of the fast domain. Source: definition."""
    return product(intra_node_KIND_parallel_degree) <= scale_up_domain_size


@quantity("boolean", constrains="intra_node_expert_parallel_degree")
def the_fast_domain_holds_the_experts(intra_node_expert_parallel_degree, fast_domain_slots_for_expert):
    """The part of the expert-parallel degree inside the node divides the number of ranks that fit there.

    Source: definition.
    """
    return np.mod(fast_domain_slots_for_expert, intra_node_expert_parallel_degree) == 0


@quantity("boolean", constrains="batch_size")
def the_batch_divides_by_the_data_degree(batch_size, data_parallel_degree):
    """Each data-parallel replica processes equally many sequences of a batch. Source: arXiv 2104.04473, section 3.3."""
    return np.mod(batch_size, data_parallel_degree) == 0


@quantity("boolean", constrains="microbatch_size")
def the_minibatch_divides_by_the_microbatch(minibatch_size, microbatch_size, number_of_microbatches_per_minibatch):
    """The sequences of a replica are a whole number of micro-batches, and a micro-batch has whole sequences.

    Source: arXiv 2104.04473, section 3.4.
    """
    is_whole = (np.mod(minibatch_size, microbatch_size) == 0) & (np.mod(microbatch_size, 1) == 0)
    return is_whole & (microbatch_size * number_of_microbatches_per_minibatch == minibatch_size)


@quantity("boolean", constrains="tensor_parallel_degree")
def attention_heads_divide_by_the_tensor_degree(
    attention_heads, tensor_parallel_degree, tensor_parallel_columns, attentions_per_layer
):
    """Each tensor-parallel share has equally many attention heads, if there are any.

    Source: arXiv 1909.08053, section 3.
    """
    rows = tensor_parallel_degree / tensor_parallel_columns
    return (np.mod(attention_heads, rows) == 0) | (np.mod(rows, 1) != 0) | (attentions_per_layer == 0)


@quantity("boolean", constrains="tensor_parallel_degree")
def key_heads_match_the_tensor_degree(
    key_value_heads, tensor_parallel_degree, tensor_parallel_columns, attentions_per_layer
):
    """Tensor-parallel shares have equally many key heads, or each key head is copied to equally many shares.

    Source: Megatron-Core, --num-query-groups.
    """
    rows = tensor_parallel_degree / tensor_parallel_columns
    divides = (np.mod(key_value_heads, rows) == 0) | (np.mod(rows, key_value_heads) == 0)
    return divides | (np.mod(rows, 1) != 0) | (attentions_per_layer == 0)


@quantity("boolean", constrains="tensor_parallel_degree")
def the_feedforward_network_divides_by_the_tensor_degree(
    feedforward_dimension, tensor_parallel_degree, tensor_parallel_columns
):
    """Each tensor-parallel share has equally many hidden units. Source: arXiv 1909.08053, section 3."""
    rows = tensor_parallel_degree / tensor_parallel_columns
    return (np.mod(feedforward_dimension, rows) == 0) | (np.mod(rows, 1) != 0)


@each_of(KIND=OF_TOKENS)
@quantity("boolean", constrains="context_parallel_degree")
def the_context_divides_by_the_context_degree(context, KIND_parallel_degree, tensor_parallel_columns):
    """Each share of a sequence has equally many tokens. Source: arXiv 2310.01889, section 3."""
    return np.mod(context, product(KIND_parallel_degree) * tensor_parallel_columns) == 0


@quantity("boolean", constrains="expert_parallel_degree")
def experts_divide_by_the_expert_degree(number_of_experts, expert_parallel_degree):
    """Each expert-parallel share has equally many experts. Source: arXiv 2006.16668, section 3."""
    return np.mod(number_of_experts, expert_parallel_degree) == 0


@quantity("boolean", constrains="expert_tensor_parallel_degree")
def experts_divide_by_the_expert_tensor_degree(
    expert_feedforward_dimension, expert_tensor_parallel_degree, number_of_MoE_layers
):
    """Each share of an expert has equally many hidden units.

    Source: arXiv 2603.07685, section 3.3.1 (expert groups with a tensor degree of their own).
    """
    return (np.mod(expert_feedforward_dimension, expert_tensor_parallel_degree) == 0) | (number_of_MoE_layers == 0)


@each_of(KIND=OF_A_STAGE)
@quantity("boolean", constrains="expert_parallel_degree")
def expert_groups_divide_the_replicas(
    KIND_parallel_degree, expert_parallel_degree, expert_tensor_parallel_degree, number_of_MoE_layers
):
    """The accelerators of one stage are a whole number of expert groups.

    Source: arXiv 2603.07685, section 3.3.1 (parallel folding: tensor × expert × replicas of experts).
    """
    is_whole = np.mod(product(KIND_parallel_degree), expert_parallel_degree * expert_tensor_parallel_degree) == 0
    return is_whole | (number_of_MoE_layers == 0)


@quantity("boolean", constrains="pipeline_flushes_per_step")
def flushes_divide_the_microbatches(pipeline_flushes_per_step, number_of_microbatches_per_minibatch):
    """Equally many micro-batches pass through the pipeline before each flush. Source: definition."""
    return np.mod(number_of_microbatches_per_minibatch, pipeline_flushes_per_step) == 0
