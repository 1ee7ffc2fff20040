"""Adapters: small trained products beside frozen weights, with what they keep and what runs around them.

With LoRA a frozen product W·x becomes W·x + s·B·A·x, and only A and B are trained; with DoRA also the length of each
row of W + s·B·A. Adapters stand beside the projections of attention, the products of a dense feed-forward network and,
if `expert_adapters` says so, those of experts.
"""

import numpy as np

from amped.theory.language.quantity import family, quantity, records
from amped.theory.nouns.kernel_work import ADDITION, DROPOUT, MOVE, READ, Traffic, Work, contraction, streamed
from amped.theory.nouns.layer_kinds import ATTENTION, DENSE, IN_EXPERTS, IN_ROUTER, MIXTURE
from amped.theory.nouns.parameter_classes import (
    ADAPTERS,
    CLASSES,
    EMBEDDINGS,
    EXPERT_ADAPTERS,
    EXPERTS,
    ParameterClass,
)
from amped.theory.nouns.places import HEADS_JOINED, NETWORK_INPUTS, PROJECTION_INPUTS
from amped.theory.nouns.records import MATRICES, WEIGHTED, Adapter, Gemm, Part

METHODS = ("lora", "dora")
# The classes of parameters that are kept in a narrow format where frozen weights have one.
NARROWED = (MATRICES, EXPERTS)
# The bytes of the scales of a block: one in fp32, or one in 8 bits and a share of one in fp32 for 256 blocks.
BYTES_OF_SCALES = {"nf4": 4, "nf4_double": 1 + 4 / 256}
# For each product with adapters: what its input is, what the product waits for, its block, and whether tensor
# parallelism splits its inputs, not its outputs.
IN_ATTENTION, IN_NETWORK = Part(ATTENTION), Part(DENSE)
NORMED = ("attention input", PROJECTION_INPUTS, IN_ATTENTION, False)
TO_NETWORK = ("network input", NETWORK_INPUTS, IN_NETWORK, False)
TO_EXPERTS = ("expert input", ("expert_sorting",), IN_EXPERTS, False)
TO_SHARED_EXPERTS = ("network input", NETWORK_INPUTS, IN_ROUTER, False)
PLACES = {
    "query_key_value": NORMED,
    "query": NORMED,
    "key": NORMED,
    "value": NORMED,
    "query_down": NORMED,
    "key_value_down": NORMED,
    "query_up": ("query latent", ("query_down",), IN_ATTENTION, False),
    "key_value_up": ("key latent", ("key_value_down",), IN_ATTENTION, False),
    "attention_output": ("heads", HEADS_JOINED, IN_ATTENTION, True),
    "feedforward_gate": TO_NETWORK,
    "feedforward_up": TO_NETWORK,
    "feedforward_gate_and_up": TO_NETWORK,
    "feedforward_down": ("activated", ("activation_function",), IN_NETWORK, True),
    "experts_gate": TO_EXPERTS,
    "experts_up": TO_EXPERTS,
    "experts_gate_and_up": TO_EXPERTS,
    "experts_down": ("activated rows", ("expert_activation", "expert_weighting"), IN_EXPERTS, True),
    "shared_experts_gate": TO_SHARED_EXPERTS,
    "shared_experts_up": TO_SHARED_EXPERTS,
    "shared_experts_gate_and_up": TO_SHARED_EXPERTS,
    "shared_experts_down": ("shared activated", ("shared_activation",), IN_ROUTER, True),
}
# The frozen products of adapters that stand beside a part of a product.
FROZEN = {
    "query": "query_key_value",
    "key": "query_key_value",
    "value": "query_key_value",
    **{
        f"{network}_{gate}": f"{network}_up"
        for network in ("feedforward", "experts", "shared_experts")
        for gate in ("gate", "gate_and_up")
    },
}


@family(named=("parameter_classes__lora", "parameter_classes__dora"), METHOD=METHODS)
@records(choice="adapters", value="METHOD")
def parameter_classes__METHOD(weight_precision, frozen_weight_precision, trained_end_classes, tower_classes):
    """The classes of parameters with adapters: all others are frozen, except perhaps both ends of the network.

    A tower has no adapters and is frozen.

    Source: arXiv 2106.09685, section 4.1.
    """
    trained, precisions = tuple(c.name for c in trained_end_classes), dict.fromkeys(NARROWED, frozen_weight_precision)
    classes = (c.having(precision=precisions.get(c.name, weight_precision), trained=c.name in trained) for c in CLASSES)
    adapters = ParameterClass(ADAPTERS, weight_precision)
    frozen_tower = (c.having(trained=False) for c in tower_classes)
    return (*classes, adapters, adapters.having(name=EXPERT_ADAPTERS, routed=True), *frozen_tower)


@records(choice="trained_ends", value="both")
def trained_end_classes__both():
    """The classes that are trained whole beside adapters: embedding and output head. Source: PEFT, modules_to_save."""
    return tuple(c for c in CLASSES if c.name == EMBEDDINGS)


# --- how far a backward pass goes ------------------------------------------------------------------------------------


@quantity("1")
def adapted_layer_fraction(number_of_adapted_layers, layers):
    """The share of the layers that have adapters. Source: PEFT, LoraConfig (layers_to_transform)."""
    return number_of_adapted_layers / layers


@family(named=("gradient_layer_fraction__lora", "gradient_layer_fraction__dora"), METHOD=METHODS)
@quantity("1", choice="adapters", value="METHOD")
def gradient_layer_fraction__METHOD(adapted_layer_fraction, trained_end_classes):
    """The share of the layers that have a backward pass: those with adapters, or all if the embedding is trained.

    Layers below the lowest adapter keep nothing, and are not recomputed.

    Source: PyTorch, autograd (a graph is recorded only where an input requires a gradient).
    """
    return np.maximum(adapted_layer_fraction, 1.0 * (len(trained_end_classes) > 0))


@family(named=("input_gradient_fraction__lora", "input_gradient_fraction__dora"), METHOD=METHODS)
@quantity("1", choice="adapters", value="METHOD")
def input_gradient_fraction__METHOD(gradient_layer_fraction, trained_end_classes, recomputed_layer_fraction, layers):
    """The share of the layers that compute the gradient of their input: all that have a backward pass but the lowest.

    Where whole layers are recomputed, the input of the lowest one is made to need a gradient. If the embedding is
    trained, it needs one.

    Source: PyTorch, autograd; transformers, modeling_utils.py (enable_input_require_grads); Megatron-Bridge,
    peft/recompute.py (maybe_enable_recompute_inputs_grad).
    """
    is_idle = (recomputed_layer_fraction <= 0) * (len(trained_end_classes) == 0)
    return gradient_layer_fraction - is_idle / layers


@family(
    named=("frozen_weight_precision__nf4", "frozen_weight_precision__nf4_double"),
    FORM=("nf4", "nf4_double"),
    SOURCE=(
        "bitsandbytes, functional.py (quantize_4bit: a scale in fp32 for each block)",
        "arXiv 2305.14314, section 3 (double quantization)",
    ),
)
@quantity("byte", choice="frozen_weight_format", value="FORM")
def frozen_weight_precision__FORM(scaling_block_size, fp8_precision, *, form):
    """The bytes of a frozen weight of 4 bits, with its share of the scales.

    A block has a scale of 4 bytes; with double quantization a scale of 1 byte, and 256 blocks share one of 4 bytes.

    Source: SOURCE.
    """
    return fp8_precision * (1 / 2 + BYTES_OF_SCALES[form] / scaling_block_size)


@records()
def adapted_projections(
    projection_gemms,
    attention_heads,
    key_value_heads,
    query_adapters,
    key_adapters,
    value_adapters,
    attention_output_adapters,
    joint_adapters,
):
    """The projections beside which adapters may stand; `count` is the number of adapters of each in a layer.

    Queries, keys and values have an adapter each, or one together.

    Source: PEFT, target_modules (q_proj, k_proj, v_proj, o_proj); Megatron-Bridge, peft/lora.py (linear_qkv).
    """
    joint, heads = 1.0 * (joint_adapters > 0), attention_heads + 2 * key_value_heads
    numbers = {
        "query_key_value": joint * np.maximum(np.maximum(query_adapters, key_adapters), value_adapters),
        **dict.fromkeys(("query_down", "query_up"), query_adapters),
        **dict.fromkeys(("key_value_down", "key_value_up"), key_adapters),
        "attention_output": attention_output_adapters,
    }
    parts = (
        ("query", attention_heads, query_adapters),
        ("key", key_value_heads, key_adapters),
        ("value", key_value_heads, value_adapters),
    )
    pieces = (
        gemm.having(name=name, n=gemm.n * share / heads, count=(1 - joint) * number)
        for gemm in projection_gemms
        if gemm.name == "query_key_value"
        for name, share, number in parts
    )
    return (*pieces, *(g.having(count=g.count * numbers[g.name]) for g in projection_gemms if g.name in numbers))


@records()
def adapted_network_products(feedforward_gemms, gate_adapters, up_adapters, down_adapters, joint_adapters, gated_mlp):
    """The products of a dense network beside which adapters may stand; `count` is the number of adapters of each.

    Source: PEFT, target_modules (gate_proj, up_proj, down_proj); Megatron-Bridge, peft/lora.py (linear_fc1, _fc2).
    """
    switches = (gate_adapters * gated_mlp, up_adapters, down_adapters, joint_adapters)
    return network_products("feedforward", feedforward_gemms, gated_mlp, switches)


def network_products(network, gemms, is_gated, switches):
    """The products of a network beside which adapters may stand; `count` is the number of adapters of each.

    Args:
        network: what the names of the products begin with.
        gemms: the products up (with the gate) and down.
        is_gated: 1 if the network has a gate, else 0.
        switches: whether the gate, the up and the down projection have adapters, and whether gate and up have one
            together.

    Source: PEFT, target_modules (gate_proj, up_proj, down_proj); Megatron-Bridge, peft/lora.py (linear_fc1, _fc2).
    """
    (up, down), (gate, has_up, has_down, joint) = gemms, switches
    joint, width = 1.0 * (joint > 0), up.n / (1 + is_gated)
    return (
        up.having(name=f"{network}_gate", n=width, count=(1 - joint) * gate),
        up.having(name=f"{network}_up", n=width, count=(1 - joint) * has_up),
        up.having(name=f"{network}_gate_and_up", count=joint * np.maximum(gate, has_up)),
        down.having(count=1.0 * has_down),
    )


@family(
    named=("adapted_expert_products__shared", "adapted_expert_products__each"),
    SHARING=("shared", "each"),
    SOURCE=(
        "Megatron-Bridge, peft/utils.py and docs/training/peft.md (share_expert_adapters, the default)",
        "Megatron-Bridge, peft/utils.py (GroupedExpertLinearAdapter); PEFT, target_parameters",
    ),
)
@records(choice="expert_adapters", value="SHARING")
def adapted_expert_products__SHARING(
    expert_gemms,
    gate_adapters,
    up_adapters,
    down_adapters,
    joint_adapters,
    gated_experts,
    gated_mlp,
    shared_expert_fraction,
    *,
    sharing,
):
    """The products of experts beside which adapters may stand; `count` is the number of adapters of each in a mixture.

    All routed experts of an accelerator have one adapter (shared), through which all their rows pass, or each has its
    own. Accelerators with other experts have other adapters. Shared experts have adapters like a dense network.

    Source: SOURCE.
    """
    _, up, down, _, _, *others = expert_gemms
    switches = (up_adapters, down_adapters, joint_adapters)
    joined = {"shared": up.batch}.get(sharing, 1.0)
    routed = [g.having(m=g.m * joined, batch=g.batch / joined, weights=EXPERT_ADAPTERS) for g in (up, down)]
    experts = network_products("experts", routed, gated_experts, (gate_adapters * gated_experts, *switches))
    shared = network_products("shared_experts", others, gated_mlp, (gate_adapters * gated_mlp, *switches))
    return (*experts, *(g.having(count=g.count * shared_expert_fraction) for g in shared))


@family(named=("adapter_pairs__lora", "adapter_pairs__dora"), METHOD=METHODS)
@records(choice="adapters", value="METHOD")
def adapter_pairs__METHOD(
    adapted_projections,
    adapted_network_products,
    adapted_expert_products,
    adapter_rank,
    adapter_magnitudes,
    adapted_layer_fraction,
    tensor_parallel_rows,
    expert_tensor_parallel_degree,
):
    """Both products of each adapter on one accelerator; `count` is the number of such adapters in an average layer.

    Where tensor parallelism splits the outputs of the frozen product, it splits the rank of the first product; where
    it splits inputs, those of the first and the outputs of the second one. Adapters of routed experts are split by
    expert tensor parallelism. Of adapters that read one tensor, the first keeps it.

    Source: arXiv 2106.09685, section 4.1; Megatron-Bridge, peft/utils.py (ParallelLinearAdapter).
    """
    kept, pairs = dict.fromkeys(((tensor, part.block) for tensor, _, part, _ in PLACES.values()), 0.0), []
    shares = {EXPERT_ADAPTERS: expert_tensor_parallel_degree}
    for product in (*adapted_projections, *adapted_network_products, *adapted_expert_products):
        tensor, after, part, splits_inputs = PLACES[product.name]
        place, degree = (tensor, part.block), shares.get(product.weights, tensor_parallel_rows)
        first, kept[place] = 1 - kept[place], np.maximum(kept[place], product.count)
        by_rank, kind = np.where(splits_inputs, 1.0, degree), {EXPERT_ADAPTERS: EXPERT_ADAPTERS}
        name, calls = f"{product.name}_adapter", {"count": product.count * adapted_layer_fraction}
        calls["batch"] = product.batch
        calls["weights"] = kind.get(product.weights, ADAPTERS)
        down = Gemm(f"{name}_down", product.m, adapter_rank / by_rank, product.k, **calls)
        up = Gemm(f"{name}_up", product.m, product.n * by_rank / degree, adapter_rank, **calls)
        pairs.append(Adapter(product.name, down, up, adapter_magnitudes, first, after, part))
    return tuple(pairs)


@records()
def adapter_operators(
    adapter_pairs,
    adapter_dropout,
    dropout_mask_precision,
    attentions_per_layer,
    dense_fraction,
    MoE_fraction,
    gradient_layer_fraction,
    input_gradient_fraction,
    entry_costs,
):
    """The operators of all adapters, in the precision of activations.

    Source: arXiv 2106.09685, section 4.1; PEFT, tuners/lora/layer.py and dora.py; Megatron-Bridge, peft/lora_layers.py.
    """
    (cost,), layers = entry_costs, {ATTENTION: attentions_per_layer, MIXTURE: MoE_fraction}
    drops = 1.0 * (adapter_dropout > 0), dropout_mask_precision
    own, operators = cost.having(operand=cost.activation, added_to=0.0), []
    passing = {PROJECTION_INPUTS: input_gradient_fraction / gradient_layer_fraction}
    for pair in adapter_pairs:
        calls, share = pair.down.count * layers.get(pair.part.block, dense_fraction), passing.get(pair.after, 1.0)
        operators += adapter_products(pair, own, drops, calls, share)
        operators += adapter_kernels(pair, own, drops, calls, share)
        operators += magnitude_kernels(pair, own, calls)
    return tuple(o.within(adapter=True) for o in operators)


def adapter_products(pair, cost, drops, calls, passing):
    """Both products of an adapter, forward and backward, with their inputs, which are kept.

    With dropout each adapter keeps its own input and a mask of a byte for each entry. Products beside routed experts
    are grouped products: of all experts, or of one group if the experts have one adapter together.

    Args:
        pair: the adapter.
        cost: the costs of an entry.
        drops: 1 with dropout, else 0; and the bytes of an entry of its mask.
        calls: the number of these adapters in a layer.
        passing: the share of them that compute the gradient of their input.

    Source: arXiv 2106.09685, section 4.1; PyTorch, native_dropout (mask).
    """
    down, up, (dropped, mask) = pair.down, pair.up, drops
    stash = pair.rows * down.k * (cost.activation * np.maximum(pair.first, dropped) + mask * dropped)
    kinds, passes = {EXPERT_ADAPTERS: "grouped_contraction"}, {"input_gradient": passing}
    shape = {"count": calls, "part": pair.part, "kind": kinds.get(down.weights, "contraction")}
    first = contraction(down, cost, stash=stash, after=(f"{pair.name}_adapter_dropout", *pair.after), **shape)
    return (
        *(o.having(count=calls * passes.get(o.phase, 1.0)) for o in first),
        *contraction(up, cost, stash=pair.rows * up.k * cost.activation, after=(down.name,), **shape),
    )


def adapter_kernels(pair, cost, drops, calls, passing):
    """The kernels around the products of an adapter: dropout, scaling and addition.

    Backward, the gradient of the output is scaled, and that of the input is added to that of the frozen product.

    Args:
        pair: the adapter.
        cost: the costs of an entry.
        drops: 1 with dropout, else 0; and the bytes of an entry of its mask.
        calls: the number of these adapters in a layer.
        passing: the share of them that compute the gradient of their input.

    Source: PEFT, tuners/lora/layer.py (Linear.forward: result + lora_B(lora_A(dropout(x))) * scaling).
    """
    inputs, outputs, shape = pair.rows * pair.down.k, pair.rows * pair.up.n, {"part": pair.part}
    is_dropped, mask = drops
    dropped = cost.of(DROPOUT, inputs) + Work(Traffic(written=inputs * mask), Traffic(read=inputs * mask))
    added = cost.of(ADDITION, inputs)
    scaled = cost.of(MOVE, outputs)
    rows, name = ("element_wise", pair.rows), f"{pair.name}_adapter"
    sum_after = (pair.up.name, FROZEN.get(pair.name, pair.name))
    summed = Work(scaled + cost.of(ADDITION, outputs), scaled)
    return (
        *streamed(f"{name}_dropout", *rows, pair.down.k, dropped, count=calls * is_dropped, after=pair.after, **shape),
        *streamed(f"{name}_sum", *rows, pair.up.n, summed, count=calls, after=sum_after, **shape),
        *streamed(f"{name}_gradient", *rows, pair.down.k, Work(backward=added), count=calls * passing, **shape),
    )


def magnitude_kernels(pair, cost, calls):
    """The kernels of DoRA: the length of each row of the adapted weight, and the scaling of both outputs by it.

    Forward, B·A is computed, added to the weight and its rows' norms are taken; the frozen output and that of the
    adapter are scaled. Backward, both gradients are scaled. The norms count as constants, so that no gradient passes
    through them.

    Args:
        pair: the adapter.
        cost: the costs of an entry.
        calls: the number of these adapters in a layer.

    Source: PEFT, tuners/lora/dora.py (DoraLinearLayer); arXiv 2402.09353, section 4.3 (norms are constants).
    """
    weights, outputs = pair.up.n * pair.down.k * pair.up.batch, pair.rows * pair.up.n
    product = Traffic(flops=weights * pair.up.k * cost.product, written=weights * cost.activation)
    lengths = product + cost.of(ADDITION, weights) + cost.of(READ, weights)
    scaled = cost.of(MOVE, outputs) + cost.of(ADDITION, outputs)
    return streamed(
        f"{pair.name}_adapter_magnitude",
        "element_wise",
        pair.up.n,
        pair.down.k,
        Work(lengths + scaled, cost.of(MOVE, outputs) * 2),
        count=calls * pair.magnitudes,
        after=(f"{pair.name}_adapter_sum",),
        part=pair.part,
    )


@family(named=("widening_operators__nf4", "widening_operators__nf4_double"), FORM=("nf4", "nf4_double"))
@records(choice="frozen_weight_format", value="FORM")
def widening_operators__FORM(product_operators, frozen_weight_precision, entry_costs):
    """The kernels that widen frozen weights of 4 bits to the precision of activations before each product with them.

    Source: bitsandbytes, autograd/_functions.py (MatMul4Bit: dequantize_4bit in the forward and in the backward pass).
    """
    (cost,) = entry_costs
    widened = Traffic(0.0 * cost.flop, read=frozen_weight_precision, written=cost.activation)
    return tuple(
        operator
        for o in product_operators
        if o.kind in WEIGHTED and o.phase == "forward"
        for operator in streamed(
            f"{o.name}_widening",
            "element_wise",
            o.n,
            o.k,
            Work(widened, widened) * (o.n * o.k * o.batch),
            count=o.count,
            part=o.part,
        )
    )


# --- rules -----------------------------------------------------------------------------------------------------------


@family(
    named=("layers_without_adapters_are_on_one_stage__lora", "layers_without_adapters_are_on_one_stage__dora"),
    METHOD=METHODS,
)
@quantity("boolean", constrains="number_of_adapted_layers", choice="adapters", value="METHOD")
def layers_without_adapters_are_on_one_stage__METHOD(
    number_of_adapted_layers, layers, tensor_parallel_degree, pipeline_parallel_degree
):
    """Adapters stand in all layers where tensor or pipeline parallelism splits the network.

    An average layer does not describe stages of which only the last have a backward pass.

    Source: definition; PEFT's layers_to_transform is meant for replicas that have all layers.
    """
    return (number_of_adapted_layers >= layers) | (tensor_parallel_degree * pipeline_parallel_degree == 1)


@family(
    named=(
        "recomputed_products_are_below_adapters__alternate_products",
        "recomputed_products_are_below_adapters__kept_products",
    ),
    POLICY=("alternate_products", "kept_products"),
)
@quantity("boolean", constrains="number_of_adapted_layers", choice="activation_recomputation", value="POLICY")
def recomputed_products_are_below_adapters__POLICY(number_of_adapted_layers, layers):
    """Adapters stand in all layers where recomputation chooses products. Source: definition."""
    return number_of_adapted_layers >= layers
