"""Every matrix product of a step: its dimensions, work, bytes, what bounds it, and its time."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from amped.estimation import Estimation
from amped.records import Gemm


@dataclass(frozen=True)
class GemmLine:
    """One product in one pass on one accelerator; totals are over its calls in a step.

    `bytes` counts each operand once; `bound` compares `intensity` with the machine's peak over memory bandwidth.
    """

    name: str
    phase: str
    m: float
    n: float
    k: float
    batch: float
    count: float
    flops: float
    bytes: float
    intensity: float
    bound: str
    time: float
    share: float


def gemm_lines(estimation: Estimation) -> list[GemmLine]:
    """All products of a step: forward, then the gradients of inputs and of weights.

    Recomputed products are not listed again; their time is `recomputation_time`.
    """
    results = estimation.results
    products = [g for g in (*results.records("layer_gemms"), *results.records("head_gemms")) if g.multiply_accumulates]
    return [_line(gemm, phase, estimation) for phase, gemm in _passes(products)]


def _passes(products: list[Gemm]) -> Iterator[tuple[str, Gemm]]:
    for gemm in products:
        yield "forward", gemm
    for gemm in reversed(products):
        yield "input_gradient", Gemm(gemm.name, gemm.m, gemm.k, gemm.n, gemm.batch, gemm.count)
        yield "weight_gradient", Gemm(gemm.name, gemm.k, gemm.n, gemm.m, gemm.batch, gemm.count)


def _line(gemm: Gemm, phase: str, estimation: Estimation) -> GemmLine:
    calls = gemm.batch * gemm.count
    flops = gemm.multiply_accumulates * estimation["flops_per_multiply_accumulate"]
    operands = gemm.m * gemm.k + gemm.k * gemm.n + gemm.m * gemm.n
    moved = operands * calls * estimation["activation_precision"]
    balance = estimation["matrix_peak_flop_rate"] / estimation["memory_bandwidth"]
    passes = "gradient_multiply_accumulate_passes" if phase == "input_gradient" else "multiply_accumulate_passes"
    time = gemm.multiply_accumulates * estimation["multiply_accumulate_time"] * estimation[passes]
    return GemmLine(
        gemm.name, phase, gemm.m, gemm.n, gemm.k, gemm.batch, gemm.count, flops, moved, flops / moved,
        "compute" if flops / moved >= balance else "memory", time, time / estimation["step_time"],
    )  # fmt: skip
