"""The operators of a tower: patches, layers, projectors, for all images of a micro-batch.

A layer of a tower has the operators of a layer of the network, with the tower's sizes: these formulas call those of
`attention/`, `feedforward/` and `layer`. Every accelerator of a tensor-parallel and of a context-parallel group runs
the whole tower of its micro-batch. Norms and additions outside of layers take no time. Attention is fused.
"""

from amped.theory.language.quantity import quantity, records
from amped.theory.nouns.conditions import WITH_TOWER
from amped.theory.nouns.kernel_work import ACTIVATION, ActivationPolicy, contraction, streamed
from amped.theory.nouns.parameter_classes import PROJECTOR, TOWER
from amped.theory.nouns.records import AttentionMask, Gemm, total
from amped.theory.nouns.tower_records import PROJECTOR_MATRICES
from amped.theory.operators.attention.fused import fused_attention_operators
from amped.theory.operators.attention.projections import (
    attention_output_operators,
    plain_projection_gemms,
    projection_bias_operators,
    projection_operators,
)
from amped.theory.operators.attention.unfused import attention_head_gemms
from amped.theory.operators.feedforward.dense import (
    activation_function_operators,
    feedforward_gemms,
    feedforward_operators,
)
from amped.theory.operators.layer import norm_operators, residual_operators


@quantity("count")
def tower_microbatch_images(microbatch_size, images_per_sequence):
    """The number of images (or clips of sound) of a micro-batch. Source: definition."""
    return microbatch_size * images_per_sequence


@quantity("count")
def tower_microbatch_tokens(tower_microbatch_images, tower_tokens):
    """The number of tokens inside a tower for a micro-batch. Source: definition."""
    return tower_microbatch_images * tower_tokens


@records()
def tower_layer_gemms(
    tower_microbatch_tokens,
    tower_layers,
    tower_dimensionality,
    tower_attention_heads,
    tower_head_dimension,
    tower_feedforward_dimension,
    tower_gated_mlp,
):
    """The matrix products with weights of all layers of a tower. Source: arXiv 2010.11929, eq. 2–3."""
    tokens, width, heads, whole = tower_microbatch_tokens, tower_dimensionality, tower_attention_heads, (1.0,) * 4
    attention = plain_projection_gemms(tokens, width, heads, heads, tower_head_dimension, 0.0, *whole)
    network = feedforward_gemms(tokens, width, tower_feedforward_dimension, tower_gated_mlp, *whole)
    return tuple(gemm.having(count=tower_layers, weights=TOWER) for gemm in attention + network)


@records()
def tower_end_gemms(
    tower_microbatch_tokens,
    tower_microbatch_images,
    tower_tokens_handed_on,
    tower_dimensionality,
    tower_patch_values,
    tower_projectors,
    projector_matrices,
):
    """The products before and behind the layers of a tower: of patches, and of projectors.

    Source: arXiv 2010.11929, eq. 1; arXiv 2310.03744, section 3.3.
    """
    rows = tower_microbatch_images * tower_tokens_handed_on
    patches = Gemm(
        "patches",
        tower_microbatch_tokens,
        tower_dimensionality,
        tower_patch_values,
        count=1.0 * (tower_patch_values > 0),
        weights=TOWER,
    )
    projectors = (
        Gemm(m.name, rows, m.outputs, m.inputs, count=tower_projectors * m.count, weights=PROJECTOR)
        for m in projector_matrices
    )
    return (patches, *projectors)


@records(**WITH_TOWER)
def tower_gemms__encoder(tower_layer_gemms, tower_end_gemms):
    """The matrix products with weights of a tower and its projectors. Source: arXiv 2010.11929, eq. 1–4."""
    return tower_end_gemms + tower_layer_gemms


@records()
def tower_head_gemms(tower_microbatch_images, tower_tokens, tower_attention_heads, tower_head_dimension):
    """The scores and weighted values of one layer of a tower, for all pairs of tokens of an image.

    Source: arXiv 1706.03762, eq. 1.
    """
    images, width = tower_microbatch_images, tower_head_dimension
    return attention_head_gemms(images, tower_tokens, 1.0, tower_attention_heads, width, width, 1.0, 1.0)


@quantity("count", **WITH_TOWER)
def tower_attention_multiply_accumulates__encoder(tower_head_gemms, tower_layers, tower_attended_tokens, tower_tokens):
    """The multiply-accumulates of scores and weighted values of a micro-batch in a tower.

    Source: arXiv 2205.14135, section 2.2; arXiv 2502.13923, section 2.1.1 (windows).
    """
    share = tower_attended_tokens / tower_tokens
    return tower_layers * total(gemm.multiply_accumulates for gemm in tower_head_gemms) * share


@records()
def tower_attention_operators(
    tower_layer_gemms,
    tower_head_gemms,
    tower_attended_tokens,
    tower_tokens,
    tower_biased_projections,
    softmax_statistic_precision,
    fused_backward_products,
    entry_costs,
):
    """The operators of the attention of one layer of a tower. Source: arXiv 2010.11929, eq. 2."""
    (cost,), (projections, output, *_) = entry_costs, tower_layer_gemms
    inputs, queries = (projections.m * width * cost.activation for width in (projections.k, output.k))
    mask = AttentionMask("mask", tower_attended_tokens / tower_tokens, 0.0)
    core = fused_attention_operators(
        tower_head_gemms,
        queries,
        3 * queries,
        softmax_statistic_precision,
        (mask,),
        fused_backward_products,
        1.0,
        1.0,
        0.0,
        entry_costs,
    )
    gemms, biases = (projections, output), tower_biased_projections / 3
    return (
        *projection_operators(gemms, (), inputs, 1.0, entry_costs),
        *projection_bias_operators(projections.m, gemms, biases, 1.0, entry_costs),
        *core,
        *attention_output_operators(gemms, (), 1.0, 1.0, entry_costs),
    )


@records()
def tower_network_operators(tower_layer_gemms, tower_gated_mlp, tower_mlp_bias, entry_costs):
    """The operators of the feed-forward network of one layer of a tower, which keeps all its tensors.

    Source: arXiv 2010.11929, eq. 3.
    """
    (cost,), (*_, up, down) = entry_costs, tower_layer_gemms
    policy = (ActivationPolicy("tower", (1 + tower_gated_mlp) * cost.activation, 0.0, 0.0),)
    function = activation_function_operators((up, down), policy, 1.0, tower_mlp_bias, 1.0, entry_costs)
    inputs = up.m * up.k * cost.activation
    return feedforward_operators((up, down), function, inputs, policy, 1.0, 1.0, entry_costs)


@records()
def tower_layer_operators(
    tower_attention_operators,
    tower_network_operators,
    tower_microbatch_tokens,
    tower_dimensionality,
    tower_layers,
    tower_norms_per_layer,
    tower_norm_vectors,
    tower_attention_output_bias,
    tower_mlp_bias,
    entry_costs,
):
    """The operators of all layers of a tower; the `count` of each is its number of calls in all of them.

    Source: arXiv 2010.11929, eq. 2–3.
    """
    tokens, width = tower_microbatch_tokens, tower_dimensionality
    norms = norm_operators(tokens, width, tower_norms_per_layer, 1.0, 1.0, tower_norm_vectors, 0.0, 0.0, entry_costs)
    stream = tokens * width * entry_costs[0].activation
    biases = (tower_attention_output_bias, tower_mlp_bias)
    residuals = residual_operators(tokens, stream, width, 0.0, 0.0, *biases, 1.0, 1.0, entry_costs)
    layer = norms + tower_attention_operators + tower_network_operators + residuals
    return tuple(
        o.having(name=f"tower_{o.name}", after=tuple(f"tower_{name}" for name in o.after), count=o.count * tower_layers)
        for o in layer
    )


@records()
def projector_operators(tower_end_gemms, tower_projector_matrices, entry_costs):
    """The products of the projectors, and the activation functions between them; each keeps its input.

    Source: arXiv 2310.03744, section 3.3.
    """
    (_, *gemms), (cost,) = tower_end_gemms, entry_costs
    products = (contraction(g, cost, stash=g.m * g.k * cost.activation, count=g.count) for g in gemms)
    *_, last = gemms
    work, calls = cost.of(ACTIVATION, last.m * last.k), last.count * (tower_projector_matrices - 1)
    functions = streamed("projector_activation", "element_wise", last.m, last.k, work, count=calls)
    return (*total(products), *functions)


@records(**WITH_TOWER)
def tower_operators__encoder(
    tower_layer_operators, tower_end_gemms, projector_operators, tower_recomputation, entry_costs
):
    """All operators of a tower for the images of a micro-batch, and those of the gradients of what is trained.

    A frozen tower has no backward pass and keeps nothing. The embedding of patches has no gradient of its input, nor
    has a projector behind a frozen tower. A layer that runs again keeps its input alone.

    Source: arXiv 2304.08485, section 4.2; PyTorch, autograd.
    """
    (patches, *_), (cost,) = tower_end_gemms, entry_costs
    embedding = contraction(patches, cost, stash=patches.m * patches.k * cost.activation, count=patches.count)
    trained = (
        *without_input_gradient(embedding, patches.name),
        *recomputed(tower_layer_operators, tower_recomputation),
        *projector_operators,
    )
    behind_frozen = without_input_gradient(projector_operators, PROJECTOR_MATRICES[0])
    frozen = (*forward_alone(embedding + tower_layer_operators), *behind_frozen)
    operators = {True: frozen, False: trained}[TOWER in cost.frozen]
    return {True: forward_alone(operators), False: operators}[PROJECTOR in cost.frozen]


def without_input_gradient(operators, name):
    """The operators without the product that gives the gradient of the input of `name`. Source: PyTorch, autograd."""
    return tuple(o for o in operators if (o.name, o.phase) != (name, "input_gradient"))


def forward_alone(operators):
    """The operators of the forward pass, which keep nothing. Source: PyTorch, autograd (no_grad)."""
    return tuple(o.having(stash=0.0 * o.stash) for o in operators if o.phase == "forward")


def recomputed(operators, share):
    """The operators of layers of which a share runs again in the backward pass, and keeps its input alone.

    Args:
        operators: the operators of all layers of a tower.
        share: the share of the layers that run again.

    Source: arXiv 1604.06174, section 3.
    """
    first = {"tower_attention_norm": 1.0}
    kept = (o.having(stash=o.stash * first.get(o.name, 1 - share)) for o in operators)
    return (*kept, *(o.recomputing(share) for o in operators if o.phase == "forward"))
