"""A slow twin of the operator model for dense decoders: plain floats and loops, written from what the pages say.

Tiles, kernels, steps of a ring, layers, stages and micro-batches are gone through one by one; nothing is shared with
amped but names: `p` has SI numbers by canonical name. test_operators.py makes layers, stages and steps of this.
"""

from math import ceil, fsum, inf, log2
from typing import NamedTuple

from tests.helpers.twins.communication import Tier
from tests.helpers.twins.layers import microbatch_tokens
from tests.helpers.twins.values import Values

# Rows and columns of a tile, the column of its efficiency, and into how many parts it may cut k.
TILES = (
    (256, 128, None, (1, 2, 4, 8)), (128, 256, None, (1, 2, 4, 8)), (128, 128, "medium_tile_efficiency", (1, 2, 4, 8)),
    (256, 64, "medium_tile_efficiency", (1,)), (64, 256, "medium_tile_efficiency", (1,)),
    (128, 64, "small_tile_efficiency", (1,)), (64, 128, "small_tile_efficiency", (1,)),
    (64, 64, "smallest_tile_efficiency", (1,)),
)  # fmt: skip
LEAST_DEPTH = 512  # of a part of k
PHASES = ("forward", "input_gradient", "weight_gradient")
REDUCING = ("norm", "softmax", "cross_entropy")  # rows, which takes longer than to stream through them
CORE = ("attention_scores", "softmax", "attention_dropout", "attention_values", "flash")


Numbers = tuple[float, ...]


class Kernel(NamedTuple):
    name: str
    phase: str
    seconds: float


# --- one kernel ------------------------------------------------------------------------------------------------------


def kernel(p: Values, name: str, phase: str, work: float, moved: float) -> Kernel:
    """Seconds of work, beside bytes that move at a bandwidth to be reached first."""
    bandwidth = p["memory_bandwidth"] * p["memory_bandwidth_efficiency"]
    if name.endswith(REDUCING):
        bandwidth *= p["normalization_bandwidth_fraction"]
    traffic = (moved + p["bandwidth_ramp_bytes"]) / bandwidth
    return Kernel(name, phase, p["kernel_overhead_time"] + max(work, traffic))


def product_seconds(p: Values, m: float, n: float, k: float, batch: float, written: float) -> float:
    """Waves of tiles over the cores; each core multiplies one tile's share of k, and the ramp."""
    peak = p["matrix_peak_flop_rate"] * p["gemm_sustained_fraction"] * p["training_clock_fraction"]
    best = inf
    bandwidth = p["memory_bandwidth"] * p["memory_bandwidth_efficiency"]
    for rows, columns, efficiency, cuts in TILES:
        filled = (m + (p["gemm_ramp_rows"] if m > 1 else 0)) * n
        begun, exact = ceil(m / rows) * ceil(n / columns), filled / (rows * columns)
        tiles = exact + p["wave_quantization"] * (begun - exact)  # as far as what is idle is really lost
        for parts in cuts:
            if parts > 1 and k / parts < LEAST_DEPTH:
                continue
            waves = tiles * batch * parts / p["cores_sharing_tiles"]
            waves += p["wave_quantization"] * (ceil(waves) - waves)
            one_core = peak / p["cores_sharing_tiles"] * (p[efficiency] if efficiency else 1)
            seconds = waves * 2 * rows * columns * (k / parts + p["gemm_ramp_depth"]) / one_core
            if parts > 1:  # partial sums go out and come in again
                seconds += parts * 2 * written / bandwidth
            best = min(best, seconds)
    return best


def linear(p: Values, name: str, m: float, n: float, k: float) -> list[Kernel]:
    """A product with a weight; a kernel of its own may add what it left to the weight's gradient, or copy it to be sent."""
    found, entries = product(p, name, m, n, k), k * n
    if p["weight_gradient_accumulation"] == "fused":
        return found
    sent = p["zero_stage"] >= 2  # gradients of every micro-batch are sharded
    moved = entries * (
        2 * p["activation_precision"] if sent else p["activation_precision"] + 2 * p["gradient_precision"]
    )
    return [*found, kernel(p, f"{name} sum", "weight_gradient", entries / p["vector_flop_rate"], moved)]


def product(p: Values, name: str, m: float, n: float, k: float, batch: float = 1, weight: bool = True) -> list[Kernel]:
    """A product and its two gradients; that of a weight is added to the gradient of other micro-batches."""
    a = p["activation_precision"]
    left, right, out = m * k * batch * a, k * n * batch * a, m * n * batch * a
    kept = k * n * p["gradient_precision"] if weight else right
    second = "weight_gradient" if weight else "input_gradient"
    added = left + out + (2 * kept if weight else kept)
    works = (
        ("forward", product_seconds(p, m, n, k, batch, out), left + right + out),
        ("input_gradient", product_seconds(p, m, k, n, batch, left), left + right + out),
        (second, product_seconds(p, k, n, m, batch, kept), added),
    )
    return [kernel(p, name, phase, seconds + waited(p, moved), moved) for phase, seconds, moved in works]


def waited(p: Values, moved: float) -> float:
    """Seconds for bytes that a processor's caches do not keep and its products do not hide."""
    bandwidth = p["memory_bandwidth"] * p["memory_bandwidth_efficiency"]
    return p["exposed_operand_fraction"] * max(0, moved - p["cached_operand_bytes"]) / bandwidth


def streamed(p: Values, name: str, forward: Numbers | None, backward: Numbers | None) -> list[Kernel]:
    """Kernels that pass over their tensors once: operations and bytes, functions and random numbers, forward and backward."""
    works = (("forward", forward), ("input_gradient", backward))
    again = 1 if name == "cross_entropy" else p["streaming_traffic_factor"]  # what is not fused goes to memory and back
    return [kernel(p, name, phase, worked(p, *work), again * work[1]) for phase, work in works if work]


def worked(p: Values, operations: float, moved: float, functions: float = 0, drawn: float = 0) -> float:
    """Additions and products, then exponentials, roots and quotients, then random numbers, one after another."""
    beside = functions * p["elementary_function_time"] + drawn * p["random_number_time"]
    return operations / p["vector_flop_rate"] + beside


def attention_rate(p: Values, way: str) -> float:
    """What a framework's attention sustains: of the newest kernel's rate what its own has, in order, and dropping out."""
    rate = p["matrix_peak_flop_rate"] * p[f"attention_{way}_efficiency"] * p["training_clock_fraction"]
    newest = p["deterministic_kernel_fraction"] if p["deterministic"] else 1
    rate *= {"newest": newest}.get(p["attention_kernel"]) or p[f"{p['attention_kernel']}_attention_fraction"]
    if p["deterministic"] and way == "backward":
        rate *= p["deterministic_attention_fraction"]
    if p["dropout"] > 0:
        rate *= p["attention_dropout_fraction"]
    ramp = p["attention_head_ramp"]  # coefficients are of heads 128 wide
    return rate * (p["head_dimension"] / (p["head_dimension"] + ramp)) / (128 / (128 + ramp))


# --- the kernels of a layer, of both ends, and of the optimizer ------------------------------------------------------


def own_tokens(p: Values) -> float:
    """Tokens that one accelerator normalizes, drops out and adds up."""
    return microbatch_tokens(p) / (p["tensor_parallel_degree"] if p["sequence_parallel"] else 1)


def norm(p: Values, name: str) -> list[Kernel]:
    entries, weights = own_tokens(p) * p["dimensionality"], p["norm_vectors"] * p["dimensionality"]
    a = p["activation_precision"]  # backward: two tensors for the input's gradient, two for the weights'
    backward = (13 * entries, (5 * entries + 2 * weights) * a)
    return streamed(p, name, (7 * entries, (2 * entries + weights) * a), backward)


def residual(p: Values, name: str, biased: float) -> list[Kernel]:
    """Bias, dropout and sum; backward the two gradients are added, and a bias's sums one of them again."""
    entries, a, drops = own_tokens(p) * p["dimensionality"], p["activation_precision"], p["dropout"] > 0
    mask = entries * p["dropout_mask_precision"] * drops
    forward = ((4 if drops else 2) * entries, 3 * entries * a + mask, 0, entries if drops else 0)
    tensors = 3 + (2 if drops else 0) + (1 if biased else 0)
    return streamed(p, name, forward, ((3 if drops else 1) * entries, tensors * entries * a + mask))


def flash(p: Values) -> list[Kernel]:
    """One kernel whose causal half is skipped; backward computes the scores again: five products for two."""
    context, heads = p["context"], p["attention_heads"] / p["tensor_parallel_degree"]
    rows, a = microbatch_tokens(p) * heads, p["activation_precision"]
    flops = 2 * 2 * rows * context * p["head_dimension"]
    if p["causal"]:
        flops *= fsum(row + 1 for row in range(int(context))) / context**2
    queries, sums = rows * p["head_dimension"] * a, rows * p["softmax_statistic_precision"]
    keys = 2 * queries * p["key_value_heads"] / p["attention_heads"]  # and values
    ramped = 1 + p["attention_ramp_length"] / context
    softmax = rows * context * p["exposed_softmax_fraction"] * 4 / p["vector_flop_rate"]
    there, back = (flops * ramped / attention_rate(p, way) for way in ("forward", "backward"))
    back = p["fused_backward_products"] * back + softmax
    forward = kernel(p, "flash", "forward", there + softmax, 2 * queries + keys + sums)
    return [forward, kernel(p, "flash", "input_gradient", back, 4 * queries + 2 * keys + sums)]


def unfused(p: Values) -> list[Kernel]:
    """Every kernel writes all scores; then the heads are brought together."""
    context, hd, a = p["context"], p["head_dimension"], p["activation_precision"]
    heads = p["microbatch_size"] * p["attention_heads"] / p["tensor_parallel_degree"]
    entries = heads * context * context
    scores, mask = entries * a, entries * p["dropout_mask_precision"]
    found = product(p, "attention_scores", context, context, hd, heads, weight=False)
    found += streamed(p, "softmax", (4 * entries, 2 * scores, entries), (4 * entries, 3 * scores))
    if p["dropout"] > 0:
        dropped = (entries, 2 * scores + mask)
        found += streamed(p, "attention_dropout", (*dropped, 0, entries), dropped)
    found += product(p, "attention_values", context, hd, context, heads, weight=False)
    moved = 2 * heads * context * hd * a
    return found + streamed(p, "head_permutation", (0, moved), (0, moved))


def attention(p: Values) -> list[Kernel]:
    t, d, tp, a = microbatch_tokens(p), p["dimensionality"], p["tensor_parallel_degree"], p["activation_precision"]
    queries, keys = (p[f"{kind}_heads"] * p["head_dimension"] / tp for kind in ("attention", "key_value"))
    found = norm(p, "attention_norm") + linear(p, "query_key_value", t, queries + 2 * keys, d)
    if p["query_key_value_bias"]:  # forward the product itself adds it
        width = queries + 2 * keys
        found += streamed(p, "bias", None, (t * width, (t + 1) * width * a))
    if p["positions"] == "rope":
        turned = t * (queries + keys)
        found += streamed(p, "rotary", (3 * turned, 2 * turned * a), (3 * turned, 2 * turned * a))
    found += flash(p) if p["flash_attention"] else unfused(p)
    found += linear(p, "attention_output", t, d, queries)
    return found + residual(p, "attention_residual", p["attention_output_bias"])


def feedforward(p: Values) -> list[Kernel]:
    t, d, a = microbatch_tokens(p), p["dimensionality"], p["activation_precision"]
    hidden, ups = p["feedforward_dimension"] / p["tensor_parallel_degree"], 2 if p["gated_mlp"] else 1
    inputs, output = ups * t * hidden * a, t * hidden * a
    back = 2 * inputs + output + (inputs if p["mlp_bias"] else 0)
    found = norm(p, "feedforward_norm") + linear(p, "feedforward_up", t, ups * hidden, d)
    evaluated = 2 * t * hidden  # an exponential and a quotient each way
    works = (9 * t * hidden, inputs + output, evaluated), (14 * t * hidden, back, evaluated)
    found += streamed(p, "activation_function", *works)
    found += linear(p, "feedforward_down", t, d, hidden)
    return found + residual(p, "feedforward_residual", p["mlp_bias"])


def embedding(p: Values) -> list[Kernel]:
    """Every share looks up all rows; backward adds to rows of the table's gradient, which are read and written."""
    a, g = p["activation_precision"], p["gradient_precision"]
    entries, own = microbatch_tokens(p) * p["dimensionality"], own_tokens(p) * p["dimensionality"]
    found = streamed(p, "embedding", (entries, 3 * entries * a), (entries, entries * (a + 2 * g)))
    if p["dropout"] > 0:
        dropped = (own, own * (2 * a + p["dropout_mask_precision"]))
        found += streamed(p, "embedding_dropout", (*dropped, 0, own), dropped)
    return found


def head(p: Values) -> list[Kernel]:
    """Final norm, output head, and a loss of several kernels: one reads narrow logits, some write none."""
    words, kernels = p["vocabulary_size"] / p["tensor_parallel_degree"], p["cross_entropy_kernels"]
    logits, a, wide = microbatch_tokens(p) * words, p["activation_precision"], p["logits_precision"]
    there = (kernels * logits, logits * (a + (kernels - 2) * wide + (kernels - 3) * wide))
    back = (3 * logits, logits * (3 * wide + 2 * wide + a))
    if p["fused_cross_entropy"]:  # reads what the head wrote, and writes the gradient over it
        there, back = (kernels * logits, logits * a), (3 * logits, 2 * logits * a)
    found = norm(p, "final_norm") + product(p, "output_head", microbatch_tokens(p), words, p["dimensionality"])
    return found + streamed(p, "cross_entropy", (*there, logits), (*back, logits))


def optimizer(p: Values, held: float) -> float:
    """Gradients unscaled to full precision, their norm, clipping, Adam, the copy to weights, and a reset to zero."""
    g, s = p["gradient_precision"], p["optimizer_state_precision"]
    if p["zero_stage"] >= 1:
        held /= p["sharding_degree"]
    states = p["optimizer_states_per_parameter"] * s
    parts = ((1, g + s), (2, s), (1, 2 * s), (15, s + 2 * states, 3), (0, s + p["weight_precision"]), (0, g))
    work = ((worked(p, *(held * n for n in part)), part[1] * held) for part in parts)
    return p["host_time_per_step"] + fsum(
        kernel(p, "optimizer", "update", seconds, moved).seconds for seconds, moved in work
    )


def phase_seconds(p: Values, kernels: list[Kernel], phase: str) -> float:
    """Of all kernels of a pass, and no less than their launches."""
    found = [k.seconds for k in kernels if k.phase == phase]
    return max(fsum(found), len(found) * p["kernel_launch_time"])


# --- collectives -----------------------------------------------------------------------------------------------------


def ring(p: Values, near: Tier, far: Tier, payload: float) -> float:
    """Once round all of a group; between nodes over as many links as it has members in a node."""
    bandwidth, ramp = near.bandwidth, p["inter_accelerator_ramp_bytes"]
    if far.members > 1:
        bandwidth, ramp = min(near.members * far.bandwidth, near.bandwidth), p["inter_node_ramp_bytes"]
    seconds, members = [ramp / bandwidth], near.members * far.members
    for number in range(1, int(members)):
        seconds += [payload / members / bandwidth, far.latency if number < far.members else near.latency]
    return fsum(seconds)


def two_tiers(p: Values, near: Tier, far: Tier, payload: float) -> float:
    """Inside the node, and across nodes what that leaves to each."""
    inside = near.gather(payload) + p["inter_accelerator_ramp_bytes"] / near.bandwidth if near.members > 1 else 0.0
    outside = far.gather(payload / near.members) + p["inter_node_ramp_bytes"] / far.bandwidth if far.members > 1 else 0
    return inside + outside


def tree(p: Values, near: Tier, far: Tier, payload: float) -> float:
    """Up and down: a chain in each node, a tree over the nodes; as many bytes as twice round a ring, less fast."""
    still, too = (Tier(tier.members, tier.bandwidth, 0.0) for tier in (near, far))  # without latency
    latency = 2 * (log2(far.members) * far.latency + (near.members - 1) * near.latency)
    return latency + 2 * ring(p, still, too, payload) / p["tree_bandwidth_fraction"]


def reduced(p: Values, near: Tier, far: Tier, payload: float) -> float:
    ways = {"ring": 2 * ring(p, near, far, payload), "tree": tree(p, near, far, payload),
            "hierarchical": 2 * two_tiers(p, near, far, payload)}  # fmt: skip
    return ways.get(p["collective_algorithm"], min(ways.values()))


def gathered(p: Values, near: Tier, far: Tier, payload: float) -> float:
    around = ring(p, near, far, payload)
    hierarchical = p["collective_algorithm"] in ("automatic", "hierarchical")
    return min(around, two_tiers(p, near, far, payload)) if hierarchical else around


def called(p: Values, kind: str, group: tuple[Tier, Tier], payload: float) -> float:
    """Seconds of a collective with the overhead of its call; a group of one has nothing to say."""
    if group[0].members * group[1].members <= 1:
        return 0.0
    return p["collective_overhead_time"] + {"all_reduce": reduced, "gather": gathered}[kind](p, *group, payload)
