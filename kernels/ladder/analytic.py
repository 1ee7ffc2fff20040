"""The ladder by two constants of a machine: the share of its matrix peak, and of its bandwidth, that kernels sustain.

Rungs differ in which bytes move and at which rate products run; nothing is fitted to a rung but the first.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from amped.kernels.ladder.shape import Shape
from amped.theory.kernel_work import ACTIVATION, DROPOUT, FUSED_BACKWARD_PRODUCTS, SOFTMAX

# Passes over the matrix of scores outside of products: scale 2, softmax 2, dropout 2.5, backward 7.5; those of the scale,
# forward and backward, which a fused softmax saves; and what each of the six products reads or writes of the scores.
SCORE_PASSES, FUSED_SAVED, OF_EACH_PRODUCT = 14.0, 4.0, 1.0
# Tensors as large as the input that norms, dropout, GELU, residuals, biases and splits move; and what compiled they do.
TENSOR_PASSES, COMPILED_PASSES = 62.0, 45.0
# Bytes that adding to kept gradients moves, in entries of the parameters.
GRADIENT_PASSES = 3.0
# Fused attention: share of the peak forward and backward. Assumed between FlashAttention-2 (335 TFLOP/s on H100 for both,
# arXiv 2307.08691) and -3 (arXiv 2407.08608), as cuDNN's is.
ATTENTION_FORWARD, ATTENTION_BACKWARD = 0.45, 0.35
# Products in fp8 against those in 16 bit. Source: NVIDIA Transformer Engine, docs/examples/gemm_profiling (H200: 1.9).
FP8_SPEEDUP = 1.9
# Bytes an entry that is cast costs: read in 16 bit, written twice in 8; once more read where its range is looked for.
CAST_BYTES, LOOK_BYTES = 4.0, 2.0


@dataclass(frozen=True)
class Board:
    """A machine: peak in flop/s, bandwidth in byte/s, and the share of each that large kernels sustain.

    A processor also takes seconds for each exponential or quotient, and for each random number.
    """

    peak: float
    bandwidth: float
    products: float
    streams: float
    function_time: float = 0.0
    drawing_time: float = 0.0


# Source of the shares: each board's first rung of a published ladder, and for the H200 its own products and copies.
H100_PCIE = Board(756e12, 2.0e12, 0.48, 0.87)
H100_SXM = Board(989e12, 3.35e12, 0.66, 0.90)
H200 = Board(989e12, 4.8e12, 0.71, 0.85)


def linear_time(s: Shape, b: Board) -> float:
    """Products with weights, forward and both gradients. Source: roofline at the sustained rate."""
    return 3 * s.linear_flops / (b.products * b.peak)


def explicit_attention_time(s: Shape, b: Board, passes: float = SCORE_PASSES) -> float:
    """Attention that writes its scores: six products, each as long as its work or its scores, and passes over scores.

    Source: arXiv 2205.14135, section 2.2 (standard attention).
    """
    product = max(
        s.attention_flops / 2 / (b.products * b.peak), OF_EACH_PRODUCT * s.score_bytes / (b.streams * b.bandwidth)
    )
    return 6 * product + passes * s.score_bytes / (b.streams * b.bandwidth)


def fused_attention_time(s: Shape, b: Board) -> float:
    """Attention as one kernel; half of it where the future is masked. Source: arXiv 2307.08691, section 4.1."""
    work = s.attention_flops * (0.5 if s.causal else 1.0) / b.peak
    return work / ATTENTION_FORWARD + FUSED_BACKWARD_PRODUCTS * work / ATTENTION_BACKWARD


def streaming_time(s: Shape, b: Board, passes: float = TENSOR_PASSES) -> float:
    """Everything else, and gradients added to kept ones. Source: bytes counted kernel by kernel."""
    moved = passes * s.activation_bytes + GRADIENT_PASSES * s.parameters * s.width
    return moved / (b.streams * b.bandwidth)


def evaluation_times(s: Shape, b: Board) -> tuple[float, float, float]:
    """Exponentials of scores that are written, random numbers of scores, and both of GELU and the other dropout.

    Source: `kernel_work` of the theory.
    """
    scores, drawing = s.score_bytes / s.width, b.drawing_time * DROPOUT.forward.drawn * (s.dropout > 0)
    of_gelu = (ACTIVATION.forward.functions + ACTIVATION.backward.functions) * s.tokens * s.ffn * b.function_time
    return (
        scores * SOFTMAX.forward.functions * b.function_time,
        scores * drawing,
        of_gelu + s.tokens * s.hidden * drawing,
    )


def fp8_linear_time(s: Shape, b: Board, dynamic: bool) -> float:
    """Products in fp8, and inputs, weights and gradients cast for them; dynamic scales read each once more.

    Source: NVIDIA Transformer Engine, fp8 primer.
    """
    inputs = s.tokens * (3 * s.hidden + s.ffn)
    outputs = s.tokens * (5 * s.hidden + s.ffn)
    entries = inputs + s.parameters + outputs
    cost = CAST_BYTES + (LOOK_BYTES if dynamic else 0.0)
    return linear_time(s, b) / FP8_SPEEDUP + entries * cost / (b.streams * b.bandwidth)


def predictions(s: Shape, b: Board) -> Mapping[str, float]:
    """Seconds of each rung, forward and backward."""
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
