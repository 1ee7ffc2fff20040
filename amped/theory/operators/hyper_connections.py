"""Hyper-connections: the residual stream as several parallel streams, mixed around each block.

Before a block one kernel computes the weights of a token from its streams, makes the mixing matrix doubly stochastic
(Sinkhorn), and adds the weighted streams up to the input of the block. After the block another kernel mixes the
streams, and adds the output of the block to each. The first layer receives a copy of the embedding in each stream; the
output head reads a weighted sum. A stage sends all streams to the next.

A network without `residual_streams` has one stream and none of these operators. Not modeled: `performance_model` amped
counts their parameters, and not their time; messages inside a layer are those of one stream.
"""

from amped.theory.language.quantity import quantity, records
from amped.theory.nouns.conditions import HYPER_CONNECTED, POST_NORMS
from amped.theory.nouns.kernel_work import COPY, Traffic, Work, operator, streamed
from amped.theory.nouns.layer_kinds import IN_MIXER, IN_NETWORK
from amped.theory.nouns.mixer_work import (
    connection_backward_bytes,
    connection_bytes,
    connection_flops,
    stream_sum_flops,
)
from amped.theory.nouns.places import ATTENTION_DONE, NETWORKS_DONE
from amped.theory.nouns.records import Gemm

# Backward, Sinkhorn's iterations are computed once more, and then their gradients. Source: arXiv 2512.24880, section
# 4.3.1. A product has two gradients.
BACKWARD_ITERATIONS, GRADIENTS = 2.0, 2.0


@quantity("byte", **HYPER_CONNECTED)
def layer_input_bytes__hyper_connections(residual_bytes, residual_streams):
    """The bytes of the streams that a layer receives of a micro-batch. Source: arXiv 2512.24880, section 3.1."""
    return residual_bytes * residual_streams


@quantity("byte", **HYPER_CONNECTED)
def stage_message_bytes__hyper_connections(microbatch_bytes, residual_streams):
    """The bytes of the streams that a stage sends to the next, without sequence parallelism.

    Source: arXiv 2512.24880, section 4.3.3 (messages of the pipeline grow with the streams).
    """
    return microbatch_bytes * residual_streams


@records(**HYPER_CONNECTED)
def connection_gemms__hyper_connections(residual_tokens, dimensionality, residual_streams):
    """The product that gives the weights of a token from its streams: to read them, to write them and to mix them.

    Source: arXiv 2512.24880, eq. 7.
    """
    weights = residual_streams * (2 + residual_streams)
    return (Gemm("stream_weights", residual_tokens, weights, residual_streams * dimensionality),)


@records(choice="norm_position", value="pre", **HYPER_CONNECTED)
def residual_operators__hyper_connections(
    residual_tokens,
    dimensionality,
    residual_streams,
    sinkhorn_iterations,
    mixer_layer_fraction,
    network_layer_fraction,
    entry_costs,
):
    """The kernels before and after each block, which stand in the place of its residual addition.

    The first keeps the streams, which the second reads, too; the second keeps the output of the block.

    Source: arXiv 2512.24880, section 4.3.1 (fused kernels). Assumes that there is no dropout.
    """
    (cost,), network = entry_costs, (dimensionality, residual_streams)
    sizes = (residual_tokens, *network)
    flops = [f * cost.product / 2 for f in connection_flops(*sizes, sinkhorn_iterations)]
    moved, gradients = connection_bytes(*sizes, cost.activation), connection_backward_bytes(*sizes, cost.activation)
    entry = residual_tokens * dimensionality * cost.activation
    sides = ((residual_tokens, dimensionality, iterations, 1.0) for iterations in (sinkhorn_iterations, 0.0))
    kept = (entry * residual_streams, entry)
    before, after = zip(sides, flops, moved, gradients, kept, strict=True)
    first = ("embedding_dropout", "stream_expansion")
    return (
        *mixing("attention_connection", *before, count=mixer_layer_fraction, after=first, part=IN_MIXER),
        *mixing("attention_residual", *after, count=mixer_layer_fraction, after=ATTENTION_DONE, part=IN_MIXER),
        *mixing(
            "feedforward_connection",
            *before,
            count=network_layer_fraction,
            after=("attention_residual",),
            part=IN_NETWORK,
        ),
        *mixing("feedforward_residual", *after, count=network_layer_fraction, after=NETWORKS_DONE, part=IN_NETWORK),
    )


def mixing(name, sides, flops, moved, gradient_bytes, kept, **calls):
    """The kernels of a hyper-connection on one side of a block: forward, and backward.

    Args:
        name: the name of both operators.
        sides: tokens, width, Sinkhorn's iterations of a token, and 1.
        flops: the operations of the forward pass.
        moved: the bytes that the forward pass reads and writes.
        gradient_bytes: the bytes that the backward pass reads and writes.
        kept: the bytes that are kept for the backward pass.
        calls: `count`, `after` and `part` of `Operator`.

    Source: arXiv 2512.24880, section 4.3.1.
    """
    tokens, width, iterations, _ = sides
    backward = Traffic(GRADIENTS * flops, read=gradient_bytes)
    again = (tokens, width, BACKWARD_ITERATIONS * iterations, 1.0)
    return (
        operator(name, "stream_mixing", "forward", sides, Traffic(flops, read=moved), stash=kept, **calls),
        operator(name, "stream_mixing", "input_gradient", again, backward, **calls),
    )


@records(**HYPER_CONNECTED)
def stream_expansion_operators__hyper_connections(residual_tokens, dimensionality, residual_streams, entry_costs):
    """The copy of the embedding to all streams. Backward, the gradients of the streams are added up.

    Source: arXiv 2409.19606, section 3.1 (the input of the network is replicated).
    """
    (cost,) = entry_costs
    copies = Work(COPY._replace(written=residual_streams), Traffic(residual_streams, residual_streams, 1))
    return streamed(
        "stream_expansion",
        "element_wise",
        residual_tokens,
        dimensionality,
        cost.of(copies, residual_tokens * dimensionality),
        after=("embedding_dropout",),
    )


@records(**HYPER_CONNECTED)
def stream_collapse_operators__hyper_connections(residual_tokens, dimensionality, residual_streams, entry_costs):
    """The weighted sum of the streams that the output head reads. It keeps the streams.

    Source: transformers, DeepseekV4HyperHead.
    """
    (cost,), sizes = entry_costs, (residual_tokens, dimensionality, residual_streams)
    (moved, _), (gradient_bytes, _) = (
        f(*sizes, cost.activation) for f in (connection_bytes, connection_backward_bytes)
    )
    flops, kept = stream_sum_flops(*sizes) * cost.product / 2, moved * residual_streams / (2 * residual_streams + 1)
    sides = (residual_tokens, dimensionality, 0.0, 1.0)
    after = ("feedforward_residual", "stage_send send_receive")
    return mixing("stream_collapse", sides, flops, moved, gradient_bytes, kept, after=after)


# --- rules -----------------------------------------------------------------------------------------------------------


@quantity("boolean", constrains="dropout", **HYPER_CONNECTED)
def streams_have_no_dropout(dropout):
    """A layer with hyper-connections has no dropout. Source: arXiv 2512.24880, section 4.3.1 (its kernels)."""
    return dropout == 0


@quantity("boolean", constrains="cross_attention_layers", **HYPER_CONNECTED)
def streams_attend_to_no_encoder(cross_attention_layers):
    """A network with hyper-connections has no layers that attend to an encoder. Source: definition."""
    return cross_attention_layers == 0


@quantity("boolean", constrains="residual_streams", **POST_NORMS, **HYPER_CONNECTED)
def norms_behind_blocks_have_one_stream(residual_streams):
    """A layer with norms behind its blocks has one residual stream, as its norms take the residual addition in.

    Source: arXiv 2007.00072, table 3.
    """
    return residual_streams <= 1
