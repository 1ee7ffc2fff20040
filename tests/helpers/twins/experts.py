"""The slow twin's mixture of experts in the operator model: tokens dealt to experts one by one, and their kernels."""

from tests.helpers.twins.operators import Kernel, kernel, norm, own_tokens, product, product_seconds, residual, streamed
from tests.helpers.twins.values import Values


def visits_of_busiest(p: Values) -> float:
    """Rows that the busiest accelerator's experts compute: visits dealt out in turn, then what imbalance or places add."""
    senders = p["expert_parallel_degree"] * p["expert_tensor_parallel_degree"]
    rows = 0.0
    for _ in range(int(senders)):  # each sends its share of the tokens to all experts alike
        rows += routed(p) * p["experts_per_token"] / p["expert_parallel_degree"]
    factor = p["expert_capacity_factor"] or p["expert_imbalance_factor"]
    return rows * factor


def routed(p: Values) -> float:
    tokens = p["batch_size"] / p["data_parallel_degree"] / p["number_of_microbatches_per_minibatch"] * p["context"]
    return tokens / p["context_parallel_degree"] / p["tensor_parallel_degree"]


def grouped(p: Values, name: str, m: float, n: float, k: float, experts: float) -> list[Kernel]:
    """One kernel for all local experts, somewhat slower than one weight's."""
    plain = product(p, name, m, n, k, experts)
    slower = p | {"gemm_sustained_fraction": p["gemm_sustained_fraction"] * p["grouped_gemm_efficiency"]}
    a, g = p["activation_precision"], p["gradient_precision"]
    left, right, out = m * k * experts * a, k * n * experts * a, m * n * experts * a
    kept = k * n * experts * g
    shapes = (
        (m, n, k, out, left + right + out),
        (m, k, n, left, left + right + out),
        (k, n, m, kept, left + out + 2 * kept),
    )
    return [
        kernel(p, name, old.phase, product_seconds(slower, rows, columns, inner, experts, written), moved)
        for old, (rows, columns, inner, written, moved) in zip(plain, shapes, strict=True)
    ]


def mixture(p: Values) -> list[Kernel]:
    d, f, a = p["dimensionality"], p["expert_feedforward_dimension"], p["activation_precision"]
    experts = p["number_of_experts"] / p["expert_parallel_degree"]
    rows, own, inner = visits_of_busiest(p), routed(p), f / p["expert_tensor_parallel_degree"]
    found = norm(p, "feedforward_norm") + product(p, "router", own, p["number_of_experts"], d)
    size = own * p["number_of_experts"]
    wide = size * p["logits_precision"]
    found += streamed(p, "expert_choice softmax", (6 * size, 6 * wide), (6 * size, 5 * wide))
    for name, entries in (("permutation", own * p["experts_per_token"] * d), ("sorting", rows * d)):
        for _ in range(2):  # there and back
            found += streamed(p, name, (entries, 2 * entries * a), (entries, 2 * entries * a))
    ups = 2 if p["gated_mlp"] else 1
    found += grouped(p, "experts_up", rows / experts, ups * inner, d, experts)
    units = rows * inner
    found += streamed(p, "activation", (9 * units, (ups + 1) * units * a), (14 * units, (2 * ups + 1) * units * a))
    found += grouped(p, "experts_down", rows / experts, d, inner, experts)
    return found + residual(p, "feedforward_residual", p["mlp_bias"])


def mixture_stash(p: Values) -> float:
    """Bytes that a mixture keeps of a micro-batch: input of the router, probabilities, visiting tokens, hidden units."""
    a, rows = p["activation_precision"], visits_of_busiest(p)
    units = rows * p["expert_feedforward_dimension"] / p["expert_tensor_parallel_degree"]
    ups = 2 if p["gated_mlp"] else 1
    probabilities = routed(p) * p["number_of_experts"] * p["logits_precision"]
    return (
        own_tokens(p) * p["dimensionality"] * a + probabilities + rows * p["dimensionality"] * a + (ups + 1) * units * a
    )
