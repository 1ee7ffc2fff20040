"""Context parallelism: how a sequence is split, and which accelerator has which queries and heads."""

import numpy as np

from amped.theory.language.quantity import each_of, quantity
from amped.theory.nouns.parallelisms import OF_TOKENS
from amped.theory.nouns.records import product


@quantity("count")
def query_split_degree(token_split_degree, ulysses_degree):
    """The number of shares into which the queries of one head are split.

    It is the number of shares of a sequence. If an all-to-all exchanges heads (Ulysses), it is 1, because each
    accelerator then has all tokens of its heads.

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


@quantity("boolean", constrains="context_parallel_degree", choice="context_parallel_kind", value="all_to_all")
def heads_divide_by_the_context_degree__all_to_all(
    attention_heads, key_value_heads, tensor_parallel_rows, context_parallel_degree
):
    """The all-to-all gives each accelerator equally many query heads.

    Each accelerator also gets equally many key heads, or each key head is copied to equally many accelerators.

    Source: arXiv 2309.14509, section 3.
    """
    shares = tensor_parallel_rows * context_parallel_degree
    keys = (np.mod(key_value_heads, shares) == 0) | (np.mod(shares, key_value_heads) == 0)
    return (np.mod(attention_heads, shares) == 0) & keys


@quantity("boolean", constrains="context_parallel_kind", choice="context_parallel_kind", value="all_to_all")
def latent_vectors_are_not_dealt_out__all_to_all(absorbed_latent_attention, context_parallel_degree):
    """One latent vector serves all heads, so absorbed latent attention has no all-to-all of heads.

    Source: arXiv 2405.04434, section 2.1.2.
    """
    return (absorbed_latent_attention == 0) | (context_parallel_degree == 1)
