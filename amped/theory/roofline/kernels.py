"""Time of a kernel: the work that it computes or the bytes that it moves, at rates that its shape and size allow.

A product is cut into tiles, which the cores compute in waves. Each tile pays once for filling its pipeline along k. The
fastest of a library's tiles and splits of k counts. Every other kernel streams through memory. The coefficients are in
the table `kernel_efficiencies`.

In all functions `operator` is a record of `Operator`, `rates` is a record of `Kernels`, and `tiles` is its `Tiles`.
"""

import numpy as np

from amped.theory.language.quantity import family, records
from amped.theory.nouns.records import FUSED, REDUCING, STREAMING, WIDE
from amped.theory.roofline.mixers import convolution_time, scan_time
from amped.theory.roofline.together import together

# For each tile of a library: its rows, its columns, its class (0 large, 1 medium, 2 small, 3 smallest), and the parts
# into which it cuts k. Only the medium tile also cuts k. Source: CUTLASS, default tiles and split-K.
TILES = np.array([(256, 128, 0, 1), (128, 256, 0, 1), (128, 128, 1, 1), (128, 64, 2, 1), (64, 128, 2, 1),
                  (64, 64, 3, 1), (128, 128, 1, 2), (128, 128, 1, 4), (128, 128, 1, 8)], dtype=np.float64)  # fmt: skip
TILE_ROWS, TILE_COLUMNS, TILE_CLASS, PARTS = (np.ascontiguousarray(column) for column in TILES.T)
TILE_CLASS = TILE_CLASS.astype(np.int64)
IS_CUT = 1.0 * (PARTS > 1)
ONE = np.ones(1)
# Rows of a block of queries (forward) or keys (backward), relative to a forward block. Source: Dao-AILab/
# flash-attention (forward 128 on Ampere and Hopper, backward 64 to 80; Blackwell 256 and 128).
BLOCKS = {"forward": 1.0, "input_gradient": 0.5}
# The width of a head at which attention kernels are measured. Source: `kernel_efficiencies`, conventions.
MEASURED_WIDTH = 128
# The widths of keys and of values together up to which the blocks of a backward pass are as large as for heads of 128.
NARROW_HEADS = 256
# The kinds of products with one weight for each group of rows.
GROUPED = ("grouped_contraction", WIDE["grouped_contraction"])
# The least k of a part, and the factor that makes a split with less deep parts too slow to be the fastest.
LEAST_DEPTH = 512
TOO_SHALLOW = 1e9


def each_tile(value):
    """The value with one more axis at its end, which has an entry for each row of `TILES`."""
    return (value * ONE)[..., None]


def packed(rows, lost):
    """The rows of a product, plus the rows lost to packing. A single row is a product with a vector and is not packed.

    Args:
        rows: the number of rows.
        lost: the number of rows that packing costs.

    Source: Low et al., ACM TOMS 43(2), 2016, section 4 (blocks of a processor's cache).
    """
    return rows + lost * np.minimum(np.maximum(rows - 1, 0), 1)


def product_time(operator, rates, multiply_accumulate_time, entry):
    """The time of a matrix product: the time of the fastest tile size and split of the inner dimension k.

        time = powered(min over tiles [waves·(step·depth + panels·latency) + split] + store) + exposed traffic,
        step = ⁴√(multiply-accumulates⁴ + loads from the cache⁴),  depth = k / parts + panels·ramp_depth,
        split = split_time + parts·2·written / bandwidth, where k is cut (parts > 1), else 0,
        store = (exposed_store·(written − added) + 2·added) / bandwidth.

    The output is cut into tiles, which the cores compute in `waves`. In a `step` a tile advances by one along k. k
    arrives in `panels`, and the tile is started for each panel: this costs `latency` and as much as `ramp_depth` steps.
    k may be split into `parts` of at least 512; to add the parts up costs `split_time`. `written` are the bytes of the
    output, and `exposed_store` is the share of the time to write them that no computation hides. `added` are those of
    them that a product in a narrow format reads, adds to, and writes: nothing hides this. `powered` adds what the power
    limit costs, and `exposed traffic` is the time of bytes that caches do not keep. The argument `entry` is the bytes
    of one entry of an operand; the loads from the cache and the power depend on it.

    Source: arXiv 2301.03598 (stream-K), section 3; CUTLASS, efficient GEMM; Low et al., ACM TOMS 43(2), 2016 (blocks of
    a processor). Differs: all tiles have one ramp depth.
    """
    tiles, k, panels = rates.products.tiles, each_tile(operator.k), each_tile(operator.panels)
    step = step_time(tiles, multiply_accumulate_time, entry)
    depth = k / PARTS + panels * each_tile(tiles.ramp_depth)
    split = IS_CUT * (each_tile(tiles.split_time) + PARTS * each_tile(2 * operator.written / rates.streams.bandwidth))
    is_shallow = k < LEAST_DEPTH * PARTS * panels
    times = waves_of(operator, tiles) * (step * depth + panels * each_tile(tiles.latency)) + split
    fastest = np.min(times * (1 + TOO_SHALLOW * IS_CUT * is_shallow), axis=-1)
    exposed_bytes = tiles.exposed_store * (operator.written - operator.added_to) + 2 * operator.added_to
    store = exposed_bytes / rates.streams.bandwidth
    return powered(fastest + store, delivered_bytes(operator, entry), tiles) + exposed_traffic_time(operator, rates)


def waves_of(operator, tiles):
    """The number of waves in which the cores compute the tiles of a product. Each part of k has tiles of its own.

        tiles = exact + e·(⌈m / rows⌉·⌈n / columns⌉ − exact),  exact = packed m·n / (rows·columns),
        waves = w + q·(⌈w⌉ − w),  w = tiles·batch·parts / cores.

    A tile has `rows` rows and `columns` columns of the m × n output. Partly filled tiles and waves have idle time. e
    and q are the shares of this idle time that are really lost: `edges` and `quantization` of `Tiles`.

    Source: arXiv 2301.03598 (stream-K), section 3.
    """
    m, n, e, q = (each_tile(v) for v in (operator.m, operator.n, tiles.edges, tiles.quantization))
    exact_tiles = packed(m, each_tile(tiles.ramp_rows)) * n / (TILE_ROWS * TILE_COLUMNS)
    tiles_of_product = exact_tiles + e * (np.ceil(m / TILE_ROWS) * np.ceil(n / TILE_COLUMNS) - exact_tiles)
    waves = tiles_of_product * each_tile(operator.batch) * PARTS / each_tile(tiles.cores)
    return waves + q * (np.ceil(waves) - waves)


def step_time(tiles, multiply_accumulate_time, entry):
    """The time in which a tile advances by one along k: its multiply-accumulates, while the cache loads its operands.

    Args:
        tiles: the coefficients of tiles, as in `Tiles`.
        multiply_accumulate_time: the seconds of a multiply-accumulate in the largest products.
        entry: the bytes of an entry of an operand.

    Source: CUTLASS, efficient GEMM (a tile reads its rows and columns once for each step of depth).
    """
    work = TILE_ROWS * TILE_COLUMNS / share_of_tiles(tiles) * each_tile(multiply_accumulate_time * tiles.cores)
    return together(work, (TILE_ROWS + TILE_COLUMNS) * each_tile(entry * tiles.load_time))


def delivered_bytes(operator, entry):
    """The bytes of the operands of all multiply-accumulates of a product: two entries for each multiply-accumulate.

    `entry` is the bytes of one entry. Source: definition.
    """
    return 2 * operator.m * operator.n * operator.k * operator.batch * entry


def powered(time, delivered, tiles):
    """The time of a product whose clock the power limit lowers, if its operands take more power than there is.

        time + share·(⁴√(time⁴ + limit⁴) − time),
        limit = delivered·delivery_time,  share = time / (time + throttling_time).

    `delivered` are the bytes of operands of all operations, and `delivery_time` is how long the power lasts to deliver
    one of them. A product that leaves cores idle takes less power, and loses less. The limit acts with a delay: in a
    product that takes `throttling_time`, half of it has set in.

    Source: arXiv 2208.11035, section 2 (power management); thonking.ai/p/strangely-matrix-multiplications (power limits
    large products of A100 and H100, by what their operands switch).
    """
    share = time / (time + tiles.throttling_time)
    return time + share * (together(time, delivered * tiles.delivery_time) - time)


def share_of_tiles(tiles):
    """The efficiency of each size of tiles, as a share of the efficiency of the largest tiles.

    Source: the row of the accelerator in the table kernel_efficiencies.
    """
    shares = np.broadcast_arrays(ONE, tiles.medium, tiles.small, tiles.smallest)
    return np.stack(shares, axis=-1)[..., TILE_CLASS]


def exposed_traffic_time(operator, rates):
    """The time in which a product waits for bytes that the caches do not keep.

    It is zero if all loads run ahead of the computation. On a thread of a processor it is the whole time to load these
    bytes, and on an accelerator a share of it.

    Source: Low et al., ACM TOMS 43(2), 2016, section 4 (blocks are packed before they are multiplied).
    """
    return rates.products.exposed * np.maximum(operator.bytes - rates.products.cached, 0) / rates.streams.bandwidth


def kernel_time(operator, rates):
    """The time of one call of an operator: its overheads, and the longer of computing and of moving bytes.

    Args:
        operator: the operator, as in `Operator`.
        rates: the coefficients of the accelerator, as in `Kernels`.

    Source: Williams et al., CACM 52(4), 2009 (roofline), with efficiencies that depend on kind, shape and size.
    """
    return (
        rates.overhead
        + beside_time(operator, rates)
        + np.maximum(work_time(operator, rates), traffic_time(operator, rates))
    )


def work_time(operator, rates):
    """The time to compute one call of an operator: its operations, functions, random numbers and addresses.

    Source: the equations of `WORK`; the row of the accelerator in the table kernel_efficiencies.
    """
    streams = rates.streams
    evaluated = operator.functions * streams.function_time + operator.drawn * streams.drawing_time
    return WORK[operator.kind](operator, rates) + evaluated + operator.indexed * streams.address_time


def traffic_time(operator, rates):
    """The time to move the bytes of one call of an operator.

        time = (bytes·traffic factor + ramp) / (bandwidth·reached share).

    The traffic factor says how many times as many bytes are moved by a framework that does not fuse kernels. Layers
    and the optimizer have a factor each; for the accumulation of gradients it is 1. The reached share is 1, or less for
    kernels that reduce rows (norms, softmax and the loss). `ramp` are the bytes by which the traffic counts as more
    than it is, because small kernels are slower.

    Source: Williams et al., CACM 52(4), 2009 (roofline); the row of the accelerator in the table kernel_efficiencies.
    """
    factors_by_phase = {"weight_gradient": 1.0, "update": rates.streams.update_factor}
    factors_by_kind = dict.fromkeys(FUSED, rates.streams.traffic_factor)
    shares_by_kind = dict.fromkeys(REDUCING, rates.streams.normalization)
    factor = factors_by_phase.get(operator.phase, factors_by_kind.get(operator.kind, 1.0))
    return (operator.bytes * factor + rates.streams.ramp) / (
        rates.streams.bandwidth * shares_by_kind.get(operator.kind, 1.0)
    )


def vector_time(operator, rates):
    """The time of the operations of an operator that multiplies no matrices.

    Source: Williams et al., CACM 52(4), 2009 (roofline).
    """
    return operator.flops / rates.streams.vector_rate


def fused_time(operator, rates):
    """The time of a fused attention: of its products, and of the part of the softmax that they do not hide.

        time = flops·(1 + more / keys + block·waiting_rows / m) / rate + m·n·softmax_time,
        flops = 2·(scores + values) forward; with equal widths 2.5 times as many backward,
        more = length + edges·edge_length,
        rate = sustained·√(1 + (r / 128)²) / √(1 / speedup² + (r / width)²)·wide·dropped.

    There are m rows of queries (of all heads and sequences) and n keys; with its mask, a query attends to `keys` of
    them. Each query costs `more` keys than those: the kernel starts and ends for each block of queries, and beyond the
    `edges` of the mask it computes scores that it discards, because it computes whole blocks. `length`, `edge_length`
    and the width r are fields of the `AttentionRamp` of the pass, the others of `FusedAttention`. `sustained` is the
    rate over long sequences for heads of the width 128, at which kernels are measured. The time of the exponentials
    does not depend on the width, which is the narrower one of keys and of values. `block` is 1 forward and 0.5
    backward: at the end all cores wait for the last block of queries, which matters if few heads and sequences give few
    blocks.
    Products in a narrower format than 16 bits take 1 / `speedup` of the time; exponentials do not.
    `wide` is the share of the `AttentionRamp` if the two widths add up to more than 256, and `dropped` is the
    `dropout_fraction` of an attention with dropout; else they are 1.

    Source: arXiv 2307.08691, section 4.1 (rates that grow with the length) and 3.2 (blocks over cores); arXiv
    2407.08608, section 3.1 (exponentials and products) and figure 5 (widths of heads); arXiv 2410.00273, section 3
    (softmax). Differs: in the rate, the times of products and of exponentials add up like the legs of a right triangle,
    because they partly overlap.
    """
    attention = rates.attention
    passes = {
        "forward": (attention.forward_rate, attention.forward_ramp),
        "input_gradient": (attention.backward_rate, attention.backward_ramp),
    }
    rate, ramp = passes[operator.phase]
    reached = (
        rate * np.hypot(1, ramp.width / MEASURED_WIDTH) / np.hypot(1 / attention.speedup, ramp.width / operator.width)
    )
    wide = 1 - (operator.both_widths > NARROW_HEADS) * (1 - ramp.wide)
    reached = reached * wide * (1 - operator.dropped * (1 - attention.dropout_fraction))
    masked = (ramp.length + operator.edges * ramp.edge_length) / operator.keys
    waiting = BLOCKS[operator.phase] * attention.waiting_rows / operator.m
    return operator.flops * (1 + (masked + waiting)) / reached + operator.m * operator.n * attention.softmax_time


def grouped_time(operator, rates):
    """The time of a product with one weight for each group of rows. Its weight gradients run at another rate.

    Source: the row of the accelerator in the table kernel_efficiencies.
    """
    return product_time(operator, rates, grouped_multiply_time(operator, rates.products), rates.products.operand)


def wide_grouped_time(operator, rates):
    """The time of a product with one weight for each group of rows, in a layer that stays in the format of activations.

    It loses as much to its groups as one in the format of products does.

    Source: the row of the accelerator in the table kernel_efficiencies.
    """
    products = rates.products
    multiply_time = grouped_multiply_time(operator, products) * products.batched_time / products.matrix_time
    return product_time(operator, rates, multiply_time, products.activation)


def grouped_multiply_time(operator, products):
    """The seconds of a multiply-accumulate of a grouped product, in its pass. `products` is the record of `Products`.

    Source: the row of the accelerator in the table kernel_efficiencies.
    """
    return {"weight_gradient": products.grouped_gradient_time}.get(operator.phase, products.grouped_time)


def wide_time(operator, rates):
    """The time of a product whose operands have the format of activations: those of the output head, for example.

    Source: NVIDIA Transformer Engine, fp8 recipes (what stays in 16 bits).
    """
    return product_time(operator, rates, rates.products.batched_time, rates.products.activation)


def beside_time(operator, rates):
    """What is added to the time of a kernel: a fixed time for each group, or k of Sinkhorn's iterations of m tokens.

    It is zero for operators that are no grouped product and no hyper-connection.

    Source: the row of the accelerator in the table kernel_efficiencies; the law of `connection_time`.
    """
    times = dict.fromkeys(GROUPED, operator.batch * rates.products.group_overhead)
    times["stream_mixing"] = operator.m * operator.k * rates.iteration_time
    return times.get(operator.kind, 0.0)


def chunked_scan_time(operator, rates):
    """The time of the chunks of linear attention in one pass; m tokens of a sequence, n heads, `batch` sequences.

    Source: the law of `scan_time`, with the numbers of the kernel in the record of `ChunkedScan`.
    """
    (scan,) = rates.scan
    sweeps = {"forward": 1.0, "input_gradient": 2.0}[operator.phase]
    sizes = operator.batch, operator.m, operator.n, operator.flops, operator.bytes, operator.bytes
    return scan_time(scan.kernel, *sizes, scan.cores, sweeps)


def short_convolution_time(operator, rates):
    """The time of the convolution of linear attention, beside which cores rearrange entries.

    Source: the law of `convolution_time`.
    """
    (scan,) = rates.scan
    return convolution_time(operator.bytes, 1.0, scan.cores, scan.rearranged)


WORK = {
    "contraction": lambda operator, rates: product_time(
        operator, rates, rates.products.matrix_time, rates.products.operand
    ),
    "grouped_contraction": grouped_time,
    WIDE["contraction"]: wide_time,
    WIDE["grouped_contraction"]: wide_grouped_time,
    "output_head_contraction": wide_time,
    "batched_contraction": wide_time,
    "fused_attention": fused_time,
    "chunked_scan": chunked_scan_time,
    "short_convolution": short_convolution_time,
    "stream_mixing": traffic_time,  # its products run beside its bytes
    **dict.fromkeys((*STREAMING, "loss"), vector_time),
}


@family(
    named=(
        "layer_durations",
        "embedding_durations",
        "output_head_durations",
        "tower_durations",
    ),
    PART=("layer", "embedding", "output_head", "tower"),
)
@records()
def PART_durations(PART_operators, kernel_rates):
    """The time of each operator by the roofline model: an overhead, and the longer of computing and of moving bytes.

    Source: Williams et al., CACM 52(4), 2009; `kernel_time` and `product_time` on this page are the equations.
    """
    return kernel_rates[0].durations(PART_operators)
