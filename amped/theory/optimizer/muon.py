"""Muon: the momentum of each weight matrix is orthogonalized by Newton–Schulz steps; Adam updates all else.

Muon takes the matrices of products in layers, with those of experts, routers and adapters. Queries, keys and values
count as a matrix each, and so do gate and up projection. Embedding, output head, biases and norms are Adam's. A
Newton–Schulz step multiplies the shorter side s and the longer side l of a matrix three times:

    A = X·Xᵀ (s × s, inner l),  B = b·A + c·A·A (s × s, inner s),  X = a·X + B·X (s × l, inner s).

Where ZeRO shards optimizer states, each replica owns whole matrices and orthogonalizes those; or each gathers all of
them. Where tensor parallelism cuts a matrix, `muon_tensor_parallel_mode` says how its ranks share the work.
"""

import numpy as np

from amped.theory.language.quantity import each_of, family, quantity, records
from amped.theory.nouns.kernel_work import Traffic, operator
from amped.theory.nouns.layer_kinds import BLOCKS, COUNTS, GEMMS
from amped.theory.nouns.parameter_classes import ADAPTERS, EXPERT_ADAPTERS, EXPERTS, WeightMatrix
from amped.theory.nouns.records import MATRICES, Collective, Gemm, total
from amped.theory.nouns.stage_records import Held

# The classes of parameters that Muon updates.
OF_MUON = (MATRICES, EXPERTS, ADAPTERS, EXPERT_ADAPTERS)
ROUTED = (EXPERTS, EXPERT_ADAPTERS)
# Products whose inputs tensor parallelism splits, not their outputs; and products that it does not split.
SPLIT_INPUTS = ("attention_output", "feedforward_down", "experts_down", "shared_experts_down")
UNSPLIT = ("query_down", "key_value_down", "router", "index_queries", "index_key", "index_weights")
# Products whose weights another product of the list has too, or that have none.
NOT_THEIR_OWN = ("query_absorption", "value_absorption", "index_scores", "wider_scores", "wider_values")
# The modes in which one rank orthogonalizes a whole matrix.
IN_WHOLE = ("duplicated", "layer_sharded")


# --- states ----------------------------------------------------------------------------------------------------------


@quantity("count", choice="optimizer", value="muon")
def optimizer_states_per_parameter__muon(
    stage_parameters, parameter_classes, adam_moments_per_parameter, full_precision_copies
):
    """The number of values that Muon keeps for a parameter on average: a momentum for those that are its own.

    Source: Keller Jordan, Muon (momentum); Megatron-LM, core/optimizer/layer_wise_optimizer.py (which are its own).
    """
    own, trained, kept = dict.fromkeys(OF_MUON, 1.0), [], []
    for place, c in enumerate(parameter_classes):
        number = c.changes * total(parameters.counts[place] for parameters in stage_parameters)
        trained.append(number)
        kept.append(number * own.get(c.name, adam_moments_per_parameter))
    return total(kept) / total(trained) + full_precision_copies


@records(choice="optimizer", value="muon")
def optimizer_states_by_class__muon(
    parameter_classes,
    adam_moments_per_parameter,
    full_precision_copies,
    optimizer_state_precision,
    moment_precision,
    weight_averages,
):
    """The bytes of the optimizer states of one parameter of each class, unsharded: a momentum, or the states of Adam.

    Source: Keller Jordan, Muon; Megatron-LM, core/optimizer/layer_wise_optimizer.py (Adam for embeddings and vectors).
    """
    copies = (full_precision_copies + weight_averages) * optimizer_state_precision
    own, adam = (
        dict.fromkeys(OF_MUON, moment_precision + copies),
        adam_moments_per_parameter * moment_precision + copies,
    )
    return tuple(Held(c.name, c.changes * own.get(c.name, adam)) for c in parameter_classes)


# --- matrices --------------------------------------------------------------------------------------------------------


@each_of(GEMMS=GEMMS, COUNTS=COUNTS)
@records()
def single_products(GEMMS, COUNTS, layers, attention_heads, key_value_heads, gated_mlp, gated_experts, adapter_pairs):
    """The products of an average layer with one matrix each; `count` is the number of matrices of a layer.

    Queries, keys and values are a product each, and so are gate and up projection. Both matrices of an adapter are one
    each.

    Source: Megatron-LM, core/optimizer/optimizer_config.py (muon_split_qkv). Differs: Megatron-LM orthogonalizes gate
    and up projection as one matrix.
    """
    share = attention_heads / (attention_heads + 2 * key_value_heads)
    gates = {"experts_up": gated_experts, "feedforward_up": gated_mlp, "shared_experts_up": gated_mlp}
    pieces = {name: [(name, 1 / (1 + gate), 1.0 + gate)] for name, gate in gates.items()}
    pieces["query_key_value"] = [("query", share, 1.0), ("key", (1 - share) / 2, 2.0)]
    layers_of = {block.name: count / layers for block, count in zip(BLOCKS, COUNTS, strict=True)}
    adapters = [
        gemm.having(count=gemm.count * gemm.batch * layers_of[pair.part.block])
        for pair in adapter_pairs
        for gemm in (pair.down, pair.up)
    ]
    products = tuple(
        gemm.having(name=name, n=gemm.n * width, count=count / layers * gemm.batch * calls)
        for gemms, count in zip(GEMMS, COUNTS, strict=True)
        for gemm in gemms
        if gemm.name not in NOT_THEIR_OWN
        for name, width, calls in pieces.get(gemm.name, [(gemm.name, 1.0, 1.0)])
    )
    return (*products, *adapters)


@records()
def weight_matrices(
    single_products, largest_stage_layers, tensor_parallel_rows, expert_tensor_parallel_degree, parameter_classes
):
    """The weight matrices that Muon takes, of an accelerator in the stage with the most layers.

    The layers of the stage have as many blocks of each kind as the network's layers have on average. Tensor parallelism
    cuts the outputs of a product, or the inputs of the products that follow. The shares of adapters count as matrices.

    Source: Megatron-LM, core/optimizer/layer_wise_optimizer.py (parameters of two dimensions); arXiv 1909.08053,
    section 3 (cuts). Differs: modules of multi-token prediction are left out.
    """
    trained, matrices = {c.name: c.changes for c in parameter_classes}, []
    for gemm in single_products:
        uncut = dict.fromkeys((*UNSPLIT, ADAPTERS, EXPERT_ADAPTERS), 1.0 + 0 * tensor_parallel_rows)
        cuts = {EXPERTS: expert_tensor_parallel_degree} | uncut
        shares = cuts.get(gemm.weights, cuts.get(gemm.name, tensor_parallel_rows))
        whole, cut = SIDES.get(gemm.name, outputs_are_cut)(gemm)
        number = gemm.count * largest_stage_layers * trained[gemm.weights] * (whole * cut > 0)
        matrices.append(WeightMatrix(gemm.name, whole, cut * shares, shares, number, routed=gemm.weights in ROUTED))
    return tuple(matrices)


def outputs_are_cut(gemm):
    """The side of a product's weight that is not cut (inputs), and a share of the other. Source: definition."""
    return gemm.k, gemm.n


def inputs_are_cut(gemm):
    """The side of a product's weight that is not cut (outputs), and a share of the other. Source: definition."""
    return gemm.n, gemm.k


SIDES = dict.fromkeys(SPLIT_INPUTS, inputs_are_cut)


# --- who orthogonalizes ----------------------------------------------------------------------------------------------


@records()
def orthogonalizing_ranks(optimizer_state_shards, expert_optimizer_state_shards):
    """The number of replicas among which matrices are shared out: of experts (second), and of all others (first).

    Source: Megatron-LM, core/optimizer/layer_wise_optimizer.py (each rank updates its own matrices).
    """
    return (Held("shared", optimizer_state_shards), Held("routed", expert_optimizer_state_shards))


@records(choice="muon_replicas", value="all")
def orthogonalizing_ranks__all():
    """The number of replicas among which matrices are shared out: 1, each replica gathers all of them.

    Source: pytorch/torchtitan, pull request 3719 (fsdp2-Muon: full_tensor).
    """
    return (Held("shared", 1.0), Held("routed", 1.0))


@family(named=("orthogonalized_matrices__duplicated", "orthogonalized_matrices__layer_sharded"), MODE=IN_WHOLE)
@records(choice="muon_tensor_parallel_mode", value="MODE")
def orthogonalized_matrices__MODE(weight_matrices, orthogonalizing_ranks, *, mode):
    """The shapes that one accelerator orthogonalizes, if it has whole matrices: m is the shorter side, n the longer.

    Each rank of tensor parallelism does all of them (duplicated), or each matrix has one of them (layer_sharded).

    Source: NVIDIA-NeMo/Emerging-Optimizers, muon_utils.py (newton_schulz_tp); Megatron-LM, pull request 6683.
    """
    homes = [{"layer_sharded": m.shares}.get(mode, 1.0 + 0 * m.shares) for m in weight_matrices]
    shapes = [(m.shorter, m.longer) for m in weight_matrices]
    return shared_out(weight_matrices, shapes, homes, orthogonalizing_ranks)


@records(choice="muon_tensor_parallel_mode", value="blockwise")
def orthogonalized_matrices__blockwise(weight_matrices, orthogonalizing_ranks):
    """The shapes that one accelerator orthogonalizes, if each rank of tensor parallelism takes its share as a matrix.

    Source: Megatron-LM, core/optimizer/muon.py (mode blockwise).
    """
    sides = [(m.whole, m.cut / m.shares) for m in weight_matrices]
    shapes = [(np.minimum(*pair), np.maximum(*pair)) for pair in sides]
    return shared_out(weight_matrices, shapes, [1.0] * len(sides), orthogonalizing_ranks)


@records(choice="muon_tensor_parallel_mode", value="distributed")
def orthogonalized_matrices__distributed(weight_matrices, orthogonalizing_ranks):
    """The shapes that one accelerator orthogonalizes, if ranks of tensor parallelism add up the products X·Xᵀ.

    m is the side that is not cut, even if it is the longer one.

    Source: NVIDIA-NeMo/Emerging-Optimizers, muon_utils.py (newton_schulz_tp, mode distributed).
    """
    cut = [m.shares > 1 for m in weight_matrices]
    pairs = list(zip(weight_matrices, cut, strict=True))
    shapes = [
        (np.where(is_cut, m.whole, m.shorter), np.where(is_cut, m.cut / m.shares, m.longer)) for m, is_cut in pairs
    ]
    return shared_out(weight_matrices, shapes, [1.0] * len(pairs), orthogonalizing_ranks)


def shared_out(matrices, shapes, homes, ranks):
    """The shapes with the number of each that the busiest accelerator orthogonalizes.

        share = max(1 / ranks, work of the largest matrix / work of all)

    A matrix is not divided, so that a rank has at least one; else the work is spread evenly.

    Args:
        matrices: the matrices.
        shapes: for each, the sides m and n that are orthogonalized.
        homes: for each, the number of ranks of tensor parallelism among which whole matrices are shared out.
        ranks: the number of replicas among which matrices are shared out.

    Source: Megatron-LM, core/optimizer/layer_wise_optimizer.py (greedy bin packing); Graham, SIAM J. Appl. Math. 17(2),
    1969 (its bound). Differs: it packs by the number of parameters, here the work counts.
    """
    pairs = zip(matrices, shapes, strict=True)
    products = [Gemm(m.name, short, long, short, count=m.count) for m, (short, long) in pairs]
    rows = list(zip(matrices, products, homes, strict=True))
    shared = []
    for matrix, shape, home in rows:
        alike = [(work_of(p), p.count) for m, p, _ in rows if m.routed == matrix.routed]
        whole = np.maximum(total(work * count for work, count in alike), 1)
        largest = maximum([work * np.minimum(count, 1) for work, count in alike])
        share = np.maximum(1 / (ranks[matrix.routed].bytes * home), largest / whole)
        shared.append(shape.having(count=shape.count * share))
    return tuple(shared)


def work_of(shape):
    """The multiply-accumulates of a Newton–Schulz step: 2·m²·n + m³. Source: Keller Jordan, Muon."""
    return shape.m * shape.m * (2 * shape.n + shape.m)


def maximum(values):
    """The largest of some numbers. Source: definition."""
    largest = 0.0
    for value in values:
        largest = np.maximum(largest, value)
    return largest


# --- kernels and messages --------------------------------------------------------------------------------------------


@records(choice="optimizer", value="muon")
def optimizer_products__muon(orthogonalized_matrices, newton_schulz_steps, optimizer_state_precision, entry_costs):
    """The Newton–Schulz steps of all matrices of an accelerator, in 16 bits, with the casts before and after.

    Source: NVIDIA-NeMo/Emerging-Optimizers, muon_utils.py (newton_schulz, newton_schulz_step). Differs: kernels that
    compute only one half of the symmetric products (SYRK) are left out; all matrices run one after the other.
    """
    (cost,), state, kernels = entry_costs, optimizer_state_precision, []
    entry, steps = cost.activation, newton_schulz_steps
    for x in orthogonalized_matrices:
        square, long = x.m * x.m, x.m * x.n
        cast = Traffic(3 * long * cost.flop, (2 * state + entry) * long, (state + entry) * long)
        gram = Traffic(square * x.n * cost.product, entry * long, entry * square)
        polynomial = Traffic(square * x.m * cost.product, entry * square, entry * square)
        update = Traffic(square * x.n * cost.product, entry * (square + long), entry * long)
        parts = (("gram", x.m, x.n, gram), ("polynomial", x.m, x.m, polynomial), ("update", x.n, x.m, update))
        kernels += [
            operator(f"{x.name}_{name}", "batched_contraction", "update", (x.m, n, k, 1.0), work, count=steps * x.count)
            for name, n, k, work in parts
        ]
        kernels.append(operator(f"{x.name}_cast", "element_wise", "update", (x.m, x.n, 0.0, 1.0), cast, count=x.count))
    return tuple(kernels)


@family(
    named=("orthogonalization_messages__duplicated", "orthogonalization_messages__distributed"),
    MODE=("duplicated", "distributed"),
)
@records(choice="muon_tensor_parallel_mode", value="MODE")
def orthogonalization_messages__MODE(
    weight_matrices,
    orthogonalized_matrices,
    newton_schulz_steps,
    optimizer_state_precision,
    activation_precision,
    row_group,
    expert_tensor_group,
    *,
    mode,
):
    """The messages of the ranks of tensor parallelism for the matrices that they orthogonalize.

    They gather each momentum (duplicated), or add up the product X·Xᵀ of each step and a norm (distributed).

    Source: NVIDIA-NeMo/Emerging-Optimizers, muon_utils.py (newton_schulz_tp, distributed_normalize_p2).
    """
    groups, messages = (row_group[0], expert_tensor_group[0]), []
    for matrix, x in zip(weight_matrices, orthogonalized_matrices, strict=True):
        group, count = groups[matrix.routed], x.count * (matrix.shares > 1)
        rows = {
            "duplicated": ((f"{x.name}_momentum", "all_gather", x.m * x.n * optimizer_state_precision, count),),
            "distributed": (
                (f"{x.name}_gram", "all_reduce", x.m * x.m * activation_precision, newton_schulz_steps * count),
                (f"{x.name}_norm", "all_reduce", optimizer_state_precision + 0 * x.m, count),
            ),
        }
        messages += [Collective(name, kind, size, group, calls) for name, kind, size, calls in rows[mode]]
    return tuple(messages)


@records(choice="muon_tensor_parallel_mode", value="layer_sharded")
def orthogonalization_messages__layer_sharded(
    weight_matrices, orthogonalizing_ranks, optimizer_state_precision, row_group, expert_tensor_group
):
    """The all-to-alls that bring the shares of each matrix to the rank that orthogonalizes it, and the result back.

    Source: Megatron-LM, pull request 6683 (core/optimizer/layer_sharded_muon.py).
    """
    messages = []
    for routed, group in enumerate((row_group[0], expert_tensor_group[0])):
        own = [m for m in weight_matrices if m.routed == bool(routed)]
        entries = total(m.whole * m.cut / m.shares * m.count * (m.shares > 1) for m in own)
        volume = entries * optimizer_state_precision / orthogonalizing_ranks[routed].bytes
        name = ("momentum", "expert_momentum")[routed]
        messages.append(Collective(name, "all_to_all", volume, group, 2.0 * (volume > 0)))
    return tuple(messages)


@records(choice="muon_replicas", value="all")
def momentum_gathers__all(
    weight_matrices,
    optimizer_state_precision,
    optimizer_state_shards,
    expert_optimizer_state_shards,
    shard_group,
    expert_replica_group,
):
    """The gathers of momenta over replicas that shard them: one for each matrix.

    Source: pytorch/torchtitan, pull request 3719 (fsdp2-Muon: full_tensor).
    """
    groups, messages = (shard_group[0], expert_replica_group[0]), []
    shards = (optimizer_state_shards, expert_optimizer_state_shards)
    for m in weight_matrices:
        volume, count = m.whole * m.cut / m.shares * optimizer_state_precision, m.count * (shards[m.routed] > 1)
        messages.append(Collective(f"{m.name}_shards", "all_gather", volume, groups[m.routed], count))
    return tuple(messages)


@records(choice="optimizer", value="muon")
def optimizer_collectives__muon(orthogonalization_messages, momentum_gathers):
    """The messages of Muon in an optimizer step: among ranks of tensor parallelism, and among replicas.

    Source: Megatron-LM, core/optimizer/muon.py and layer_wise_optimizer.py.
    """
    return orthogonalization_messages + momentum_gathers


# --- rules -----------------------------------------------------------------------------------------------------------


@quantity("boolean", constrains="optimizer_offload", choice="optimizer", value="muon")
def muon_stays_on_the_accelerator__muon(optimizer_offload):
    """Muon's states are not offloaded: the host is too slow for its products.

    Source: Megatron-LM, core/optimizer/muon.py (no offload).
    """
    return optimizer_offload == 0


@quantity("boolean", constrains="tensor_parallel_strategy", choice="optimizer", value="muon")
def muon_has_no_grids__muon(tensor_parallel_columns):
    """Muon is published for matrices that are cut along one side: not for a grid of tensor parallelism.

    Source: NVIDIA-NeMo/Emerging-Optimizers, muon_utils.py (partition_dim).
    """
    return tensor_parallel_columns == 1
