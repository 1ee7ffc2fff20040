"""Predicts the ladder from two constants of a machine: the shares of matrix peak and bandwidth that kernels reach.

Rungs differ in the bytes that they move and in the rate of their products; only the first rung is used for a fit.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from amped.kernels.layer_shape import Shape
from amped.theory.kernel_work import ACTIVATION, DROPOUT, FUSED_BACKWARD_PRODUCTS, SOFTMAX

# Passes over the matrix of scores outside of products: scale 2, softmax 2, dropout 2.5, backward 7.5. FUSED_SAVED: the
# passes of the scale, forward and backward, which a fused softmax saves. OF_EACH_PRODUCT: what each of the six
# products reads or writes of the scores.
SCORE_PASSES, FUSED_SAVED, OF_EACH_PRODUCT = 14.0, 4.0, 1.0
# Passes of a causal mask that is filled in: a read and a write forward, and both again for its gradient.
MASK_PASSES = 4.0
# Tensors with the size of the input that norms, dropout, GELU, residuals, biases and splits move, plain and compiled.
TENSOR_PASSES, COMPILED_PASSES = 62.0, 45.0
# Traffic of adding gradients to kept ones, in entries for each parameter.
GRADIENT_PASSES = 3.0
# The share of the peak that fused attention reaches, forward and backward. Assumed between FlashAttention-2
# (335 TFLOP/s on H100 for both, arXiv 2307.08691) and -3 (arXiv 2407.08608), as for cuDNN's kernel.
ATTENTION_FORWARD, ATTENTION_BACKWARD = 0.45, 0.35
# How much faster products are in fp8 than in 16 bits. Source: NVIDIA Transformer Engine, docs/examples/gemm_profiling
# (H200: 1.9).
FP8_SPEEDUP = 1.9
# Bytes for each entry of a cast: read in 16 bits, written twice in 8; and read once more if its range is searched.
CAST_BYTES, LOOK_BYTES = 4.0, 2.0


@dataclass(frozen=True)
class Board:
    """A machine: peak in flop/s, bandwidth in byte/s, and the share of each that large kernels reach.

    A processor also needs seconds for each exponential or quotient, and for each random number.
    """

    peak: float
    bandwidth: float
    products: float
    streams: float
    function_time: float = 0.0
    drawing_time: float = 0.0


# Source of the shares: the first rung of each board's published ladder; for the H200 its own products and copies.
H100_PCIE = Board(756e12, 2.0e12, 0.48, 0.87)
H100_SXM = Board(989e12, 3.35e12, 0.66, 0.90)
H200 = Board(989e12, 4.8e12, 0.71, 0.85)


def linear_time(s: Shape, b: Board) -> float:
    """Time of the products with weights, forward and both gradients. Source: roofline model at the sustained rate."""
    return 3 * s.linear_flops / (b.products * b.peak)


def explicit_attention_time(s: Shape, b: Board, passes: float = SCORE_PASSES) -> float:
    """Time of attention that writes its scores: six products, each limited by its work or its scores, and other passes.

    A causal mask saves no work here, and has passes of its own.
    Source: arXiv 2205.14135, section 2.2 (standard attention).
    """
    product = max(
        s.attention_flops / 2 / (b.products * b.peak), OF_EACH_PRODUCT * s.score_bytes / (b.streams * b.bandwidth)
    )
    passes += MASK_PASSES if s.causal else 0.0
    return 6 * product + passes * s.score_bytes / (b.streams * b.bandwidth)


def fused_attention_time(s: Shape, b: Board) -> float:
    """Time of attention as one kernel; half if it is causal. Source: arXiv 2307.08691, section 4.1."""
    work = s.attention_flops * (0.5 if s.causal else 1.0) / b.peak
    return work / ATTENTION_FORWARD + FUSED_BACKWARD_PRODUCTS * work / ATTENTION_BACKWARD


def streaming_time(s: Shape, b: Board, passes: float = TENSOR_PASSES) -> float:
    """Time of all other kernels, and of adding gradients to kept ones. Source: bytes counted kernel by kernel."""
    moved = passes * s.activation_bytes + GRADIENT_PASSES * s.parameters * s.width
    return moved / (b.streams * b.bandwidth)


def evaluation_times(s: Shape, b: Board) -> tuple[float, float, float]:
    """Times of the exponentials of written scores, of the scores' random numbers, and of GELU with other dropout.

    Source: `amped/theory/kernel_work.py`.
    """
    scores, drawing = s.score_bytes / s.width, b.drawing_time * DROPOUT.forward.drawn * (s.dropout > 0)
    of_gelu = (ACTIVATION.forward.functions + ACTIVATION.backward.functions) * s.tokens * s.ffn * b.function_time
    return (
        scores * SOFTMAX.forward.functions * b.function_time,
        scores * drawing,
        of_gelu + s.tokens * s.hidden * drawing,
    )


def fp8_linear_time(s: Shape, b: Board, dynamic: bool) -> float:
    """Time of the products in fp8, and of casts of inputs, weights and gradients; dynamic scales read each once more.

    Source: NVIDIA Transformer Engine, fp8 primer.
    """
    inputs = s.tokens * (3 * s.hidden + s.ffn)
    outputs = s.tokens * (5 * s.hidden + s.ffn)
    entries = inputs + s.parameters + outputs
    cost = CAST_BYTES + (LOOK_BYTES if dynamic else 0.0)
    return linear_time(s, b) / FP8_SPEEDUP + entries * cost / (b.streams * b.bandwidth)


def predictions(s: Shape, b: Board) -> Mapping[str, float]:
    """The seconds of each rung, forward and backward."""
    of_scores, dropped, of_rest = evaluation_times(s, b)
    of_scores = of_scores + dropped
    explicit, fused = explicit_attention_time(s, b) + of_scores, fused_attention_time(s, b) + dropped
    saved = explicit_attention_time(s, b, SCORE_PASSES - FUSED_SAVED) + of_scores
    linear, rest = linear_time(s, b), streaming_time(s, b) + of_rest
    compiled = fused + streaming_time(s, b, COMPILED_PASSES) + of_rest
    return {
        "eager": linear + explicit + rest,
        "functional": linear + explicit + rest,
        "fused_softmax": linear + saved + rest,
        "sdpa": linear + fused + rest,
        "compiled": linear + compiled,
        "graph": linear + compiled,
        "fp8_delayed": fp8_linear_time(s, b, dynamic=False) + compiled,
        "fp8_dynamic": fp8_linear_time(s, b, dynamic=True) + compiled,
        "fp8_explicit": fp8_linear_time(s, b, dynamic=False) + saved + rest,
    }
