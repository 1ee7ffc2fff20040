"""Times of the kernels of linear attention, of sparse attention and of hyper-connections.

Each is a sum of stages, and a stage is a roofline: products, bytes, or cycles of the cores. Numbers are those of a
kernel, the same on all accelerators; what differs between accelerators is their datasheet.

In all functions `cores` is a record of `Cores`.

    measured, forward: convolutions, scans of gated delta net and Kimi delta attention, whole layers of indexed,
        compressed and block-sparse attention, hyper-connections
    by law only: the scan of Mamba-2, and all backward passes (operations and bytes of `nouns/mixer_work.py`)
"""

import numpy as np

from amped.theory.nouns.mixer_records import ScanKernel, SparseKernel
from amped.theory.roofline.together import together

# The bytes that a core moves in a cycle where it rearranges entries, which lie anywhere, so that each is waited for.
# Memory is slower than all cores together on accelerators with GDDR, and faster on those with HBM. Fitted to four
# fifths of all mixture layers, on all accelerators and in all precisions at once. Convolutions move as many: 9.5 to
# 10.5 on H100, B200 and GB200.
BYTES_PER_CYCLE = 10.0
# The same in entries of 16 bits.
ENTRIES_PER_CYCLE = BYTES_PER_CYCLE / 2

# Fitted to four fifths of the scans in ai-dynamo/aiconfigurator (SGLang, TensorRT-LLM and vLLM on H100, B200, GB200 and
# L40S; heads of 128, chunks of 64). GATED_DELTA and KIMI_DELTA are kernels of Triton, one after another, as trainings
# use them; the FUSED ones hand states on and do nearly all else in one kernel. STATE_SPACE is assumed: as many
# operations in a cycle as in GATED_DELTA; its states are only added, in as many cycles as two trips to memory take.
GATED_DELTA = ScanKernel(chunk=64, flops=550, step=2200, carried=0.85, stores=1)
KIMI_DELTA = ScanKernel(chunk=64, flops=299, step=1580, carried=0.85, stores=1)
FUSED_GATED_DELTA = ScanKernel(chunk=64, flops=14400, step=4640, carried=1, stores=0)
FUSED_KIMI_DELTA = ScanKernel(chunk=64, flops=1410, step=6580, carried=1, stores=0)
STATE_SPACE = ScanKernel(chunk=128, flops=550, step=1000, carried=0.85, stores=1)
# The kernels of each kind of linear attention. Lightning attention has those of a state space, whose products it has.
# Recurrences without products of chunks are streamed: only their convolution reads this record, and no number of its
# scan.
SCAN_KERNELS = {
    "gated_delta_net": GATED_DELTA,
    "kimi_delta_attention": KIMI_DELTA,
    "mamba2": STATE_SPACE,
    "lightning_attention": STATE_SPACE,
    "mamba1": STATE_SPACE,
    "gated_recurrence": STATE_SPACE,
    "short_convolution": STATE_SPACE,
}


# The fewest cores of an accelerator for which these laws hold.
FEWEST_CORES = 16


def numbers_of(kernel, flop):
    """The numbers of a kernel in the order of the fields of `ScanKernel`; an operation counts as `flop`.

    Source: definition.
    """
    return kernel.chunk, kernel.flops * flop, kernel.step, kernel.carried, kernel.stores


def scan_time(kernel, sequences, tokens, heads, flops, moved, held, cores, sweeps=1.0):
    """The time of a linear attention in chunks, in one pass.

        time = ⁴√(computing⁴ + moving⁴) + sweeps·chunks·step·waves / frequency,
        computing = flops / (cores·frequency·operations of a cycle),  chunks = ⌈tokens / chunk⌉,
        waves = max(1, w), or ⌈w⌉ of a single kernel,  w = sequences·heads / (cores·carried).

    The chunks of a sequence are computed side by side, but their states one after another: with few sequences and heads
    most cores wait for those that hand states on. A single kernel keeps its tensors beside its core. The small products
    of a chunk depend on one another, so that cores compute as many operations in a cycle whatever their peak is.

    Args:
        kernel: the numbers of the kernel.
        sequences: the sequences.
        tokens: the tokens of each.
        heads: the heads, each with a state.
        flops: the operations of the pass.
        moved: the bytes that the kernels move.
        held: the bytes of their tensors.
        cores: the accelerator.
        sweeps: how often states are handed on: once forward, twice backward (states again, then their gradients).

    Source: arXiv 2406.06484, section 3.2 (parallel over chunks, sequential over states);
    fla-org/flash-linear-attention, fla/ops/common/chunk_delta_h.py. Differs: the fourth root of the sum of fourth
    powers replaces the longer.
    """
    waves = sequences * heads / (cores.number * kernel.carried)
    computing = flops / (kernel.flops * cores.cycles)
    side_by_side = together(computing, kernel.stores * cores.moving_time(moved, held))
    handing = np.where(kernel.stores > 0, np.maximum(waves, 1.0), np.ceil(waves))
    return side_by_side + sweeps * np.ceil(tokens / kernel.chunk) * kernel.step * handing / cores.frequency


def convolution_time(moved, padding, cores, rearranged=BYTES_PER_CYCLE):
    """The time of a causal convolution, which is limited by memory, or by how fast cores rearrange its entries.

    Cores also go through the entries by which a kernel pads short sequences: `padding` times as many. A core moves
    `rearranged` bytes in a cycle.

    Source: Williams et al., CACM 52(4), 2009 (roofline); `BYTES_PER_CYCLE`.
    """
    return together(cores.moving_time(moved, moved), moved * padding / (rearranged * cores.cycles))


# Fitted to four fifths of the layers in ai-dynamo/aiconfigurator. An indexer's score takes equally long on H100 and
# B200: its products are in 8 bits, but what limits it are the sums over heads and the top k. `blocks` writes and reads
# an output in full precision for each block of keys that a query selects, which are its many passes. Kernels pad to the
# heads of one product: 64 on Hopper, 128 on Blackwell; those on keys in 8 bits may multiply in 8 bits, at up to twice
# the 16-bit rate. Which kernels pad, and the cycles of a score, were chosen with all rows in view.
# Source: vllm-project/vllm, vllm/v1/attention/backends/mla/flashmla_sparse.py (padding of heads).
INDEX = {"score": 0.45, "head_score": 0.055}
SPARSE_KERNELS = {
    "flash_mla": SparseKernel(share=0.897, row=80100, passes=4.8, heads=128, **INDEX),
    "flash_mla_hopper": SparseKernel(share=0.711, row=53900, passes=6.8, heads=64, **INDEX),
    "flash_mla_fp8": SparseKernel(share=0.695, row=140000, passes=0.0, heads=64, pads=1, **INDEX),
    "flashinfer": SparseKernel(share=0.739, row=52100, passes=7.8, heads=128, **INDEX),
    "flashinfer_fp8": SparseKernel(share=1.61, row=64200, passes=7.3, heads=128, **INDEX),
    "flashinfer_parts": SparseKernel(share=0.967, row=35000, passes=16.1, **INDEX),
    "flashinfer_fp8_parts": SparseKernel(share=1.16, row=0, passes=6.0, heads=128, pads=1, **INDEX),
    "tensorrt_llm": SparseKernel(share=0.696, row=16100, passes=5.6, heads=128, **INDEX),
    "tensorrt_llm_fp8": SparseKernel(share=1.17, row=15000, passes=6.0, heads=128, **INDEX),
    "tensorrt_llm_hopper": SparseKernel(share=0.25, row=55300, passes=8.5, heads=64, pads=1, **INDEX),
    "dense": SparseKernel(share=0.563, row=0, passes=3.06),
    "compressed": SparseKernel(share=0.368, row=15700, passes=4.0, heads=64, **INDEX),
    "blocks": SparseKernel(share=0.803, row=2610, passes=46, score=0.184),
    "blocks_triton": SparseKernel(share=0.185, row=13200, passes=6.2, score=0.52, most=368),
    "blocks_triton_fp8": SparseKernel(share=0.185, row=18000, passes=6.0, score=4.58, most=184),
}


def attended_time(kernel, flops, cores):
    """The time of the products of a sparse attention: at a share of the peak, or of what older instructions reach.

    Kernels that gather keys with the instructions of earlier generations (Triton) compute as many operations in a
    cycle on each generation.

    Source: Williams et al., CACM 52(4), 2009 (roofline).
    """
    return flops / np.minimum(kernel.share * cores.flop_rate, kernel.most * cores.cycles)


def besides_time(kernel, tokens, entries, entry, cores):
    """The time of what a layer of sparse attention does besides products: by rows, and by bytes.

    Args:
        kernel: the numbers of the kernel.
        tokens: its tokens.
        entries: the entries of queries of all tokens and heads.
        entry: the bytes of one.
        cores: the accelerator.

    Source: the rotations, norms and casts in DeepSeek-V3.2-Exp, inference/model.py.
    """
    return tokens * kernel.row / cores.cycles + entries * entry * kernel.passes / cores.bandwidth


def indexing_time(kernel, scores, heads, cores):
    """The time in which an indexer scores keys and selects the highest, without its projections.

    Source: arXiv 2512.02556, equations 1 and 2; deepseek-ai/DeepGEMM, fp8_mqa_logits (a kernel for all scores).
    """
    return scores * (kernel.score + kernel.head_score * heads) / cores.cycles


# The cycles of a core for one of Sinkhorn's iterations of a token; fitted to four fifths of the shapes in
# ai-dynamo/aiconfigurator, which all have 20 iterations.
ITERATION_CYCLES = 19.5


def connection_time(moved, tokens, iterations, cores):
    """The time of a hyper-connection on one side of a block: bytes, while cores compute the iterations of its tokens.

    Args:
        moved: the bytes of `connection_bytes`.
        tokens: its tokens.
        iterations: Sinkhorn's iterations before a block; 0 after it.
        cores: the accelerator.

    Source: arXiv 2512.24880, section 4.3.1.
    """
    return cores.moving_time(moved, moved) + tokens * iterations * ITERATION_CYCLES / cores.cycles
