"""Projections into queries, keys and values and out of attention, and what is done to each head between them.

The `count` of a product is the number of its calls in a layer of its kind for one micro-batch. Dimensions are the share
of one accelerator. A share that is not whole stays a fraction, for example where there are fewer key heads than the
tensor-parallel degree.
"""

from amped.theory.language.quantity import family, quantity, records
from amped.theory.nouns.kernel_work import COPY, NORM, ROTATION, Traffic, Work, contraction, streamed
from amped.theory.nouns.layer_kinds import ATTENTION
from amped.theory.nouns.places import HEADS_EXCHANGED, HEADS_JOINED, PRODUCTS_DONE, PROJECTION_INPUTS
from amped.theory.nouns.records import Gemm

# The kernels of a rotation that is not fused, of queries or of keys.
ROTATION_KERNELS = 6


@records()
def plain_projection_gemms(
    microbatch_tokens,
    dimensionality,
    attention_heads,
    projected_key_value_heads,
    head_dimension,
    attention_gate_width,
    tensor_parallel_rows,
    input_width_split_degree,
    output_width_split_degree,
    product_panels,
):
    """The matrix products of the projections of plain attention, split by heads. They give gates, too.

    Source: arXiv 1909.08053, section 3; arXiv 2505.06708, section 2.2 (gate).
    """
    entries = head_dimension * (attention_heads + 2 * projected_key_value_heads) + attention_gate_width
    query_key_value = entries / tensor_parallel_rows
    inputs = attention_heads * head_dimension / input_width_split_degree
    outputs = dimensionality / output_width_split_degree
    return (
        Gemm("query_key_value", microbatch_tokens, query_key_value, dimensionality, panels=product_panels),
        Gemm("attention_output", microbatch_tokens, outputs, inputs, panels=product_panels),
    )


@records()
def projection_gemms(plain_projection_gemms, indexer_gemms):
    """The matrix products of the projections of attention, and those of an indexer of blocks of keys if it has one.

    Source: arXiv 1909.08053, section 3; transformers, MiniMaxM3VLAttention.
    """
    queries_keys_and_values, output = plain_projection_gemms
    return (queries_keys_and_values, *indexer_gemms, output)


@family(
    named=(
        "query_bytes",
        "key_bytes",
        "value_bytes",
        "attention_output_bytes",
    ),
    TENSOR=("query", "key", "value", "attention_output"),
    HEADS=("attention_heads", "key_value_heads", "key_value_heads", "attention_heads"),
    WIDTH=("query_key_width", "head_dimension", "value_head_dimension", "value_width"),
)
@quantity("byte")
def TENSOR_bytes(microbatch_tokens, HEADS, WIDTH, tensor_parallel_rows, activation_precision):
    """The size of the TENSOR of attention for a micro-batch on one accelerator.

    Source: arXiv 2205.05198, section 4.1.
    """
    return microbatch_tokens * HEADS * WIDTH / tensor_parallel_rows * activation_precision


@records()
def projection_operators(projection_gemms, indexer_operators, linear_input_bytes, attentions_per_layer, entry_costs):
    """The projection into queries, keys and values, which keeps its input for the backward pass.

    An indexer that chooses blocks of keys, if there is one, reads the same input.

    Source: arXiv 2205.05198, section 4.1; transformers, MiniMaxM3VLAttention.
    """
    (cost,), product = entry_costs, projection_gemms[0]
    after = (*PROJECTION_INPUTS, "query_key_value_inputs broadcast", "query_key_value_weights broadcast")
    calls = {"stash": linear_input_bytes, "count": attentions_per_layer, "after": after}
    return (*contraction(product, cost, **calls), *indexer_operators)


@records()
def projection_bias_operators(
    microbatch_tokens, projection_gemms, query_key_value_bias, attentions_per_layer, entry_costs
):
    """The gradients of the biases of queries, keys and values; in the forward pass the product itself adds the biases.

    Source: Megatron-LM, fused linear layers.
    """
    (cost,), width = entry_costs, projection_gemms[0].n
    size = microbatch_tokens * width
    sums = Traffic(size * cost.flop, size * cost.activation, width * cost.activation)
    return streamed(
        "projection_bias",
        "element_wise",
        microbatch_tokens,
        width,
        Work(backward=sums),
        count=query_key_value_bias * attentions_per_layer,
        after=("query_key_value",),
    )


@records()
def attention_output_operators(
    projection_gemms, attention_gate_operators, output_width_split_degree, attentions_per_layer, entry_costs
):
    """The projection out of attention, which keeps its input for the backward pass, behind the gate of the output.

    Source: arXiv 2205.05198, section 4.1.
    """
    (cost,), output = entry_costs, projection_gemms[-1]
    stash = output.m * output.k / output_width_split_degree * cost.operand
    after = (*HEADS_JOINED, "attention_output_inputs broadcast", "attention_output_weights broadcast")
    return attention_gate_operators + contraction(output, cost, stash=stash, count=attentions_per_layer, after=after)


@records()
def attention_gate_operators(
    microbatch_tokens,
    attention_output_bytes,
    attention_gate_width,
    tensor_parallel_rows,
    attentions_per_layer,
    entry_costs,
):
    """The product of the output of the heads with the sigmoid of a gate, of each entry or of each head. It keeps both.

    Source: arXiv 2505.06708, section 2.2; transformers, Qwen3NextAttention.
    """
    (cost,), gates = entry_costs, microbatch_tokens * attention_gate_width / tensor_parallel_rows
    entries = attention_output_bytes / cost.activation
    product = cost.of(Work(Traffic(1, read=1, written=1), Traffic(2, read=2, written=1), kept=1), entries)
    sigmoid = Work(Traffic(1, read=1, functions=2), Traffic(3, read=1, written=1, functions=2), kept=1)
    return streamed(
        "attention_gate",
        "element_wise",
        microbatch_tokens,
        entries / microbatch_tokens,
        product + cost.of(sigmoid, gates),
        count=(attention_gate_width > 0) * attentions_per_layer,
        after=HEADS_EXCHANGED,
    )


@records()
def attention_head_permutation_operators(
    attention_output_bytes, microbatch_tokens, dimensionality, unfused_attentions_per_layer, entry_costs
):
    """The copy that brings the heads of a token together after an unfused attention.

    The backward pass has a copy that separates the heads again.

    Source: Megatron-LM, ParallelAttention (context_layer.permute().contiguous()).
    """
    (cost,) = entry_costs
    copy = cost.of(COPY, attention_output_bytes / cost.activation)
    return streamed(
        "head_permutation",
        "element_wise",
        microbatch_tokens,
        dimensionality,
        Work(copy, copy),
        count=unfused_attentions_per_layer,
        after=HEADS_EXCHANGED,
    )


@records()
def query_key_norm_operators(
    microbatch_tokens,
    query_bytes,
    key_bytes,
    tensor_parallel_rows,
    attention_heads,
    projected_key_value_heads,
    head_dimension,
    query_key_norm,
    attentions_per_layer,
    entry_costs,
):
    """The norms of the query and of the key of each head, which keep their inputs.

    Source: arXiv 2302.05442, section on the model architecture (QK normalization); arXiv 2007.00072, table 3
    (operations of a norm).
    """
    heads = (attention_heads + projected_key_value_heads) / tensor_parallel_rows
    norm = entry_costs[0].of(NORM, (query_bytes + key_bytes) / entry_costs[0].activation)
    return streamed(
        "query_key_norm",
        "normalization",
        microbatch_tokens * heads,
        head_dimension,
        norm,
        count=query_key_norm * attentions_per_layer,
        after=PRODUCTS_DONE,
    )


@quantity("count")
def rotary_width(attention_heads, projected_key_value_heads, head_dimension, tensor_parallel_rows):
    """The entries of a token's queries and keys, on one accelerator, that the position of the token rotates.

    Source: arXiv 2104.09864, eq. 34.
    """
    return (attention_heads + projected_key_value_heads) * head_dimension / tensor_parallel_rows


@records(choice="positions", value="rope")
def rotary_operators__rope(
    microbatch_tokens,
    rotary_width,
    scaled_rotation,
    rotary_by_document,
    microbatch_size,
    documents_per_sequence,
    attentions_per_layer,
    entry_costs,
):
    """The rotation of queries and keys by their position: in one kernel, or document by document.

    In the second case each document has six kernels for queries and six for keys, which pass over its entries.

    Source: arXiv 2104.09864, eq. 34; Megatron-Core, models/common/embeddings/rope_utils.py (_apply_rotary_pos_emb_thd:
    sign, two joins, two products, sum).
    """
    (cost,), apart = entry_costs, 1.0 * (rotary_by_document > 0)
    documents = 2 * microbatch_size * documents_per_sequence
    calls = 1 + apart * (ROTATION_KERNELS * documents - 1)
    entries = microbatch_tokens * rotary_width * (1 + apart * (1 / documents - 1))
    turned = cost.of(ROTATION, entries) + Traffic(flops=scaled_rotation * entries * cost.flop)
    return streamed(
        "rotary_positions",
        "element_wise",
        microbatch_tokens,
        rotary_width,
        Work(turned, turned),
        count=attentions_per_layer * calls,
        after=("query_key_norm",),
    )


@records(choice="scaled_rotation_kernels", value="separate")
def scaled_rotation_operators__separate(
    microbatch_tokens, rotary_width, scaled_rotation, attentions_per_layer, entry_costs
):
    """The kernels of a rotation by parts, beside the traffic that a rotation in one kernel has too.

    Forward there are six kernels: a change of sign of one half, a join of the halves, products with the cosines and
    the sines, their sum, and a join with the entries that are not rotated. Backward there are seven. The products
    repeat the cosines for each head, and a half is not contiguous, so that these kernels compute the address of each
    entry. The traffic of the sums and joins is counted as one call.

    Source: Megatron-Core, models/common/embeddings/rope_utils.py (_apply_rotary_pos_emb_bshd), and autograd of it.
    """
    (cost,), entries, calls = entry_costs, microbatch_tokens * rotary_width, scaled_rotation * attentions_per_layer
    size, shape = entries * cost.activation, ("single_kernel", microbatch_tokens, rotary_width)
    product = Traffic(entries * cost.flop, size, size, indexed=entries)
    signed, added = product * (1 / 2), Traffic(entries * cost.flop, 3 * size, 2 * size)
    added_gradients = Traffic(2 * entries * cost.flop, 4 * size, 3 * size)
    after = ("query_key_norm",)
    return (
        *streamed("rotation_sign", *shape, Work(signed, signed), count=calls, after=after),
        *streamed("rotation_product", *shape, Work(product, product), count=2 * calls, after=("rotation_sign",)),
        *streamed("rotation_sum", *shape, Work(added, added_gradients), count=calls, after=("rotation_product",)),
    )


@records()
def attention_core_operators(unfused_attention_operators, fused_attention_operators):
    """The operators between the projections: scores, softmax and weighted values. Selective recomputation repeats them.

    Source: arXiv 2205.05198, section 5.
    """
    return tuple(o.within(core=True) for o in unfused_attention_operators + fused_attention_operators)


@records()
def attention_operators(
    projection_operators,
    projection_bias_operators,
    query_key_norm_operators,
    rotary_operators,
    scaled_rotation_operators,
    attention_cast_operators,
    attention_core_operators,
    sink_operators,
    attention_head_permutation_operators,
    attention_output_operators,
):
    """The operators of attention from its input to its output. Source: arXiv 1706.03762, section 3.2."""
    earlier_operators = projection_operators + projection_bias_operators + query_key_norm_operators + rotary_operators
    earlier_operators = earlier_operators + scaled_rotation_operators + attention_cast_operators
    later_operators = sink_operators + attention_head_permutation_operators + attention_output_operators
    return tuple(o.within(block=ATTENTION) for o in earlier_operators + attention_core_operators + later_operators)
