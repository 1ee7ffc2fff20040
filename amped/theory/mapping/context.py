"""Context parallelism: how a sequence is split, and which accelerator has which queries and heads."""

import numpy as np

from amped.theory.language.quantity import each_of, family, quantity, records
from amped.theory.nouns.parallelisms import OF_TOKENS
from amped.theory.nouns.records import Group, product


@quantity("count")
def query_split_degree(token_split_degree, ulysses_degree):
    """The number of shares into which the queries of one head are split.

    It is the number of shares of a sequence. If an all-to-all exchanges heads (Ulysses), it is 1, because each
    accelerator then has all tokens of its heads; if several all-to-alls do, each in a part of the group, it is the
    number of parts.

    Source: arXiv 2309.14509, section 3.
    """
    return token_split_degree / ulysses_degree


@quantity("count")
def unbalanced_sequence_split_degree(balanced_context_work, query_split_degree):
    """The number of shares of a causal sequence if the shares have different numbers of scores, else 1.

    The last share of the sequence then has the most scores.

    Source: arXiv 2311.09431, section 1.
    """
    return np.where(balanced_context_work > 0, 1, query_split_degree)


@records(choice="context_parallel_kind", value="hierarchical")
def context_levels__hierarchical(
    ulysses_degree, intra_node_context_parallel_degree, inter_node_context_parallel_degree
):
    """The two groups of an accelerator: its neighbors, with which it exchanges heads, and its ring of such groups.

    Neighbors are in one fast domain as far as the domain has places for them.

    Source: Megatron-Core, parallel_state.py (create_hierarchical_groups: the first size is that of adjacent ranks).
    """
    inside = np.minimum(ulysses_degree, intra_node_context_parallel_degree)
    across = ulysses_degree / inside
    ring = (intra_node_context_parallel_degree / inside, inter_node_context_parallel_degree / across)
    return Group("neighbors", intra=inside, inter=across), Group("ring", intra=ring[0], inter=ring[1])


# --- rules -----------------------------------------------------------------------------------------------------------


@each_of(KIND=OF_TOKENS)
@quantity("boolean", constrains="context_parallel_degree")
def balanced_context_has_two_blocks_per_rank(
    context, KIND_parallel_degree, tensor_parallel_columns, causal, balanced_context_work, ulysses_degree
):
    """Each balanced share of a causal sequence consists of an early and a late block of equal length.

    The sequence length is therefore a multiple of twice the number of shares. Source: Megatron-Core, context
    parallelism (a sequence divides by twice the degree).
    """
    shares = product(KIND_parallel_degree) * tensor_parallel_columns / ulysses_degree
    free = (shares == 1) | (causal == 0) | (balanced_context_work == 0)
    return free | (np.mod(context, 2 * shares) == 0)


@family(
    named=("heads_divide_by_the_context_degree__all_to_all", "heads_divide_by_the_context_degree__hierarchical"),
    WAY=("all_to_all", "hierarchical"),
    DEGREE=("context_parallel_degree", "ulysses_degree"),
)
@quantity("boolean", constrains="DEGREE", choice="context_parallel_kind", value="WAY")
def heads_divide_by_the_context_degree__WAY(attention_heads, key_value_heads, tensor_parallel_rows, DEGREE):
    """The all-to-all gives each accelerator equally many query heads.

    Each accelerator also gets equally many key heads, or each key head is copied to equally many accelerators.

    Source: arXiv 2309.14509, section 3.
    """
    shares = tensor_parallel_rows * DEGREE
    keys = (np.mod(key_value_heads, shares) == 0) | (np.mod(shares, key_value_heads) == 0)
    return (np.mod(attention_heads, shares) == 0) & keys


@quantity("boolean", constrains="context_parallel_kind", choice="context_parallel_kind", value="hierarchical")
def levels_make_the_context_group__hierarchical(context_levels, context_parallel_degree):
    """Both levels of a hierarchical context group have whole numbers of accelerators, inside a node and across nodes.

    Source: Megatron-LM, arguments.py (the product of --hierarchical-context-parallel-sizes is the degree).
    """
    parts = [part for group in context_levels for part in (group.intra, group.inter)]
    whole = product(np.mod(part, 1) == 0 for part in parts)
    return (whole > 0) & (product(parts) == context_parallel_degree)


@family(
    named=("latent_vectors_are_not_dealt_out__all_to_all", "latent_vectors_are_not_dealt_out__hierarchical"),
    WAY=("all_to_all", "hierarchical"),
)
@quantity("boolean", constrains="context_parallel_kind", choice="context_parallel_kind", value="WAY")
def latent_vectors_are_not_dealt_out__WAY(absorbed_latent_attention, ulysses_degree):
    """One latent vector serves all heads, so absorbed latent attention has no all-to-all of heads.

    Source: arXiv 2405.04434, section 2.1.2.
    """
    return (absorbed_latent_attention == 0) | (ulysses_degree == 1)


@quantity("boolean", constrains="split_token_fraction", when_given=("split_context_degree",))
def a_token_is_on_one_ring__dynamic(split_token_fraction, whole_context_fraction):
    """The tokens on smaller rings and those on a ring of the whole context group are no more than all tokens.

    Source: definition.
    """
    return split_token_fraction + whole_context_fraction <= 1 + 1e-9
