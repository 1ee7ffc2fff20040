"""Products and attention in fp8 and fp4: the casts before them, how much faster attention is, and what stays wide."""

import numpy as np

from amped.theory.language.quantity import family, quantity, records
from amped.theory.nouns.castings import FP4_CASTING, FP8_CASTINGS
from amped.theory.nouns.kernel_work import Traffic, Work, streamed
from amped.theory.nouns.places import EXCHANGED
from amped.theory.nouns.records import MATRICES, WEIGHTED, WIDE


@quantity("1")
def weight_cast_fraction(weights_cast_once_per_step, number_of_microbatches_per_minibatch):
    """The share of the micro-batches of a step in which weights are cast: the first one only, or every one.

    Source: definition.
    """
    return np.where(weights_cast_once_per_step, 1 / number_of_microbatches_per_minibatch, 1.0)


@quantity("1", choice="attention_format", value="fp8")
def attention_speedup__fp8(fp8_peak_flop_rate, bf16_peak_flop_rate):
    """How many times as fast the products of attention are in fp8 as in 16 bits: as the peaks are.

    Source: arXiv 2407.08608, section 3.3 (FP8). Differs: transposing the values takes no time.
    """
    return fp8_peak_flop_rate / bf16_peak_flop_rate


@records(choice="attention_format", value="fp8")
def attention_cast_operators__fp8(
    attention_input_bytes,
    attention_output_bytes,
    fused_attentions_per_layer,
    fp8_precision,
    dimensionality,
    entry_costs,
):
    """The casts to fp8 before a fused attention: of queries, keys and values, and backward of the output's gradient.

    Source: NVIDIA Transformer Engine, dot_product_attention (FusedAttnFunc with fp8).
    """
    (cost,) = entry_costs
    cast = Traffic(cost.flop, cost.activation, fp8_precision)
    inputs, outputs = attention_input_bytes / cost.activation, attention_output_bytes / cost.activation
    return streamed(
        "fused_attention_casts",
        "element_wise",
        inputs / dimensionality,
        dimensionality,
        Work(cast * inputs, cast * outputs),
        count=fused_attentions_per_layer,
        after=EXCHANGED,
    )


@quantity("count")
def fp8_operand_layouts(compute_capability):
    """The layouts of an operand in fp8 that is multiplied along its rows and along its columns, with one scale for all.

    The matrix units of Blackwell in data centers read both directions from one layout. All others need the operand as
    it is and transposed.

    Source: NVIDIA Transformer Engine, common/transformer_engine.cpp (nvte_is_non_tn_fp8_gemm_supported) and
    pytorch/csrc/quantizer.cpp (create_transpose). Differs: assumed to need two on accelerators of other vendors.
    """
    return 2.0 - (compute_capability >= 10) * (compute_capability < 12)


@family(
    named=("fp8_casting__tensors", "fp8_casting__current", "fp8_casting__blocks"),
    SCALING=tuple(FP8_CASTINGS),
)
@records(choice="fp8_scaling", value="SCALING")
def fp8_casting__SCALING(fp8_operand_layouts, *, scaling):
    """How tensors are cast to fp8, with scales of SCALING. Source: `FP8_CASTINGS`."""
    row = FP8_CASTINGS[scaling]
    return (row.having(layouts=np.maximum(row.layouts, fp8_operand_layouts)),)


@records()
def fp4_casting():
    """How tensors are cast to fp4. Source: arXiv 2509.25149, section 2."""
    return (FP4_CASTING,)


@family(
    named=(
        "quantization_operators__fp8",
        "quantization_operators__fp4",
    ),
    NARROW=("fp8", "fp4"),
    SOURCE=(
        "NVIDIA Transformer Engine, fp8 recipes; arXiv 2209.05433, section 2",
        "arXiv 2509.25149, section 2 (NVFP4). Differs: Hadamard transforms take no time",
    ),
)
@records(choice="matrix_precision", value="NARROW")
def quantization_operators__NARROW(
    product_operators,
    NARROW_precision,
    NARROW_casting,
    output_width_split_degree,
    weight_split_degree,
    tensor_parallel_rows,
    weight_cast_fraction,
    entry_costs,
    parameter_classes,
):
    """The casts to NARROW before each product.

    In the forward pass the inputs and the weights are cast, in the backward pass the gradient of the output. An
    accelerator casts its own share of a tensor, and writes each tensor in one or two layouts, as the `Casting` says: of
    inputs and gradients the second one is for the weight gradient, which frozen weights do not have. If weights are
    cast only in the first micro-batch of a step, every micro-batch counts an equal share of this cast. Frozen weights
    that are kept as narrow as NARROW are not cast.

    Source: SOURCE.
    """
    (cost,), columns = entry_costs, weight_split_degree / tensor_parallel_rows / weight_cast_fraction
    (matrices,), (casting,) = [c for c in parameter_classes if c.name == MATRICES], NARROW_casting
    is_cast = np.maximum(matrices.changes, 1.0 * (matrices.precision > NARROW_precision))
    products = [o for o in product_operators if o.kind in WEIGHTED]
    layouts_of = {o.name: casting.layouts for o in products if o.phase == "weight_gradient"}
    calls = []
    for o in (product for product in products if product.phase == "forward"):
        layouts = layouts_of.get(o.name, 1)
        input_cast, weight_cast, gradient_cast = (
            Traffic(cost.flop, readings * cost.activation, written * NARROW_precision) * o.batch
            for readings, written in (
                (casting.inputs, layouts),
                (casting.weights, casting.layouts),
                (casting.gradients, layouts),
            )
        )
        inputs, weights = o.m / output_width_split_degree * o.k, o.n / columns * o.k * is_cast
        calls += cast_before(o, Work(input_cast * inputs + weight_cast * weights, gradient_cast * (o.m * o.n)))
    return tuple(calls)


def cast_before(product, work):
    """The casts before a product in its forward pass, and those before its gradients.

    Args:
        product: the product in the forward pass.
        work: the casts of both passes.

    Source: definition.
    """
    name = f"{product.name}_casts"
    after = tuple(other for other in product.after if other != name)
    shape = {"count": product.count, "part": product.part, "after": after}
    return streamed(name, "element_wise", product.m, product.k, work, **shape)


# --- layers that stay in the format of activations -------------------------------------------------------------------


@quantity("1")
def wide_layer_fraction(number_of_first_wide_layers, number_of_last_wide_layers, layers):
    """The share of the layers that stay in the format of activations, if the first and the last ones do.

    Source: Megatron-LM, --first-last-layers-bf16.
    """
    return np.minimum((number_of_first_wide_layers + number_of_last_wide_layers) / layers, 1)


@records(choice="end_layer_format", value="activations")
def layer_operators__wide_ends(like_layer_operators, wide_layer_fraction, entry_costs):
    """All operators of one layer, on average over the layers, of which the first and the last stay wide.

    Each product with a weight stands twice, in its format and in that of activations, with the share of the layers that
    have it so. Nothing is cast in layers that stay wide.

    Source: Megatron-LM, --first-last-layers-bf16 (get_fp8_context of a layer). Differs: each pipeline stage has the
    share of an average layer, and modules of multi-token prediction too; attention in fp8 stays in fp8 in all layers.
    """
    (cost,), wide = entry_costs, wide_layer_fraction
    products = {o.name for o in like_layer_operators if o.kind in WIDE}
    shares = dict.fromkeys((*products, *(f"{name}_casts" for name in products)), 1 - wide)
    operators = []
    for o in like_layer_operators:
        operators.append(o.having(count=o.count * shares.get(o.name, 1.0)))
        operators.extend(widened(p, cost).having(count=p.count * wide) for p in (o,) if p.kind in WIDE)
    return tuple(operators)


def widened(product, cost):
    """A product whose operands have the format of activations, from the one in the format of products.

    Its output is as large. What it keeps are operands; nothing that multiplications do not hide is added to.

    Args:
        product: the product, as in `Operator`.
        cost: the bytes of the entries, as in `EntryCosts`.

    Source: definition.
    """
    operands = (product.m * product.k + product.k * product.n) * product.batch
    return product.having(
        kind=WIDE[product.kind],
        read=product.read + operands * (cost.activation - cost.operand),
        stash=product.stash * cost.activation / cost.operand,
        added_to=0.0 * product.added_to,
    )
