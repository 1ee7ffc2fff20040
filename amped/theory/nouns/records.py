"""Plural things: frozen records whose fields are arrays that broadcast.

The texts, switches, tables and equations of a record are its structure. Its other fields are float64 arrays, or records
and tuples of arrays; `mapped` applies a function to the arrays.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from functools import reduce
from operator import add, mul
from types import FunctionType
from typing import Any, Self

import numpy as np

from amped.base.record import dataclass, record
from amped.theory.nouns.mixer_records import Cores, ScanKernel


@dataclass(frozen=True)
class Part:
    """Which part of a layer an operator or a message is; it is structure, and no number.

    Attributes:
        block: the block to which it belongs, if not every kind of layer has the block (a name of `BLOCKS`).
        graph: "router" if a CUDA graph of the router alone holds it, "experts" if a graph up to the router does not.
        core: whether it is an operator of the attention core: scores, softmax, dropout and weighted values.
        last: whether it is the last product of the layer, whose output no backward pass needs.
        gradients: whether it is a message of gradients, which only a backward pass sends.
        adapter: whether it is an operator of an adapter, which not all layers may have.
    """

    block: str = ""
    graph: str = ""
    core: bool = False
    last: bool = False
    gradients: bool = False
    adapter: bool = False


ANY_PART = Part()
# The types of fields that are no arrays: texts, switches, tables, equations and parts of a layer.
STRUCTURE = (str, bool, Mapping, FunctionType, Part)


@record
class Record:
    """A record of named values: arrays, or other records of arrays."""

    name: str

    def having(self, **fields: Any) -> Self:
        """A copy of this record with other values in some fields."""
        return replace(self, **fields)

    def mapped(self, function: Callable[[Any], Any]) -> Self:
        """A copy of this record in which `function` is applied to each array."""
        return type(self)(*[_mapped(getattr(self, name), function) for name in self.__match_args__])


def _mapped(value: Any, function: Callable[[Any], Any]) -> Any:
    """The value of a field with `function` applied to its arrays, also inside records and tuples."""
    if isinstance(value, np.ndarray):  # most values are arrays, and the tests below take longer
        return function(value)
    if isinstance(value, Record):
        return value.mapped(function)
    if isinstance(value, tuple):
        return tuple([_mapped(element, function) for element in value])
    return value if isinstance(value, STRUCTURE) else function(value)


# The class of parameters to which the weights of most products belong; the other classes are in `parameter_classes`.
MATRICES = "matrices"


@record
class Gemm(Record):
    """A matrix product: `batch` times an m × k matrix with a k × n matrix.

    Attributes:
        count: the number of calls in a layer, on average over the layers.
        panels: the number of parts in which the inner dimension k arrives. The product of each part is added to the
            output before the next part arrives.
        weights: the class of parameters to which the k × n matrix belongs, if it is a weight.
    """

    m: Any
    n: Any
    k: Any
    batch: Any = 1.0
    count: Any = 1.0
    panels: Any = 1.0
    weights: str = MATRICES

    @property
    def multiply_accumulates(self) -> Any:
        """The number of multiply-accumulates of all calls of this product in a layer."""
        return self.m * self.n * self.k * self.batch * self.count


@record
class Adapter(Record):
    """An adapter beside a product with frozen weights: a product down to its rank, and a product up to the width.

    The names of both products begin with the name of the frozen product.

    Attributes:
        down, up: the two products; `count` is the number of such adapters in a layer with their block.
        magnitudes: 1 if the adapter trains the length of each row of the weight too, else 0.
        first: the share of the calls that keep their input; the others read one that another adapter keeps.
        after: what the frozen product waits for.
        part: the block to which both belong.
    """

    down: Gemm
    up: Gemm
    magnitudes: Any = 0.0
    first: Any = 1.0
    after: tuple[str, ...] = ()
    part: Part = ANY_PART

    @property
    def rows(self) -> Any:
        """The number of rows that a call of the adapter takes; of experts that have an adapter each, all together."""
        return self.down.m * self.down.batch

    @property
    def parameters(self) -> Any:
        """The number of parameters of all such adapters of a layer on one accelerator."""
        products = self.down.k * self.down.n + self.up.k * self.up.n
        return (products + self.magnitudes * self.up.n) * self.down.count * self.down.batch

    @property
    def multiply_accumulates(self) -> Any:
        """The number of multiply-accumulates of both products in a layer with this block."""
        return self.down.multiply_accumulates + self.up.multiply_accumulates


@record
class Group(Record):
    """Accelerators that communicate with one another: `intra` accelerators in each of `inter` nodes (fast domains)."""

    intra: Any
    inter: Any

    @property
    def degree(self) -> Any:
        """The number of accelerators of the group."""
        return self.intra * self.inter


@record
class Collective(Record):
    """A communication in a group of accelerators, called `count` times.

    Attributes:
        volume: the bytes of the whole payload that an accelerator holds before or after the call. The equation of each
            `kind` tells how many of them cross a link.
        crossing: for an all-to-all: the bytes that cross nodes, divided by the bytes that would cross if every
            accelerator on another node received its own copy.
        forwarded: for an all-to-all: 1 if messages from other nodes also pass over the links inside the node, else 0.
        after: the operators and collectives of the forward pass for which this one waits, as in `Operator`.
        part: the part of the layer that it is.
    """

    kind: str
    volume: Any
    group: Group
    count: Any
    crossing: Any = 1.0
    forwarded: Any = 0.0
    after: tuple[str, ...] = ()
    part: Part = ANY_PART

    @property
    def intra(self) -> Any:
        """The number of accelerators of the group inside each node."""
        return self.group.intra

    @property
    def inter(self) -> Any:
        """The number of nodes of the group."""
        return self.group.inter


@record
class Operator(Record):
    """One operator in one pass of a block, for one micro-batch on one accelerator.

    Attributes:
        kind: contraction (with a weight), grouped_contraction (with one weight for each group of rows),
            wide_contraction and wide_grouped_contraction (the same in 16 bits, in layers that stay wide),
            output_head_contraction (in 16 bit), batched_contraction (of activations), fused_attention, normalization,
            element_wise, single_kernel (element-wise; the traffic factor of unfused frameworks does not apply), or
            loss.
        phase: forward, input_gradient, weight_gradient or update.
        m, n, k, batch: a contraction is `batch` products of m × k with k × n; other operators work on `m` rows of `n`
            entries.
        read, written: bytes that a call must read and write.
        stash: bytes that a call keeps for the backward pass.
        kernels: the number of kernels that the host launches for a call.
        count: the number of calls in a layer, on average over the layers.
        panels: the number of parts in which the inner dimension k of a product arrives.
        width: the width of a head of a fused attention; the narrower one of keys and of values.
        both_widths: the widths of a head of a fused attention in keys and in values, added.
        keys: the keys to which a query of a fused attention attends, on average.
        edges: the edges of the mask of a fused attention: 0 without a mask, 1 with a causal mask, 2 with a window.
        dropped: 1 if a fused attention has dropout, else 0.
        functions: exponentials, roots and quotients that a call computes.
        drawn: random numbers that a call draws.
        indexed: entries whose addresses a call computes one by one.
        added_to: bytes of a weight gradient that a product in a narrow format reads and writes to add to them; else 0.
        held: bytes that a shared cache holds from an earlier run of a benchmark, so that memory does not move them.
        after: what the operator waits for in the forward pass: names of operators, and of collectives with their kinds.
            If a network does not have one of them, the operator waits for what that one would wait for.
        part: the part of the layer that it is.
    """

    kind: str
    phase: str
    m: Any
    n: Any
    k: Any
    batch: Any
    flops: Any
    read: Any
    written: Any
    stash: Any
    kernels: Any
    count: Any
    panels: Any = 1.0
    width: Any = 1.0
    both_widths: Any = 2.0
    keys: Any = 1.0
    edges: Any = 0.0
    dropped: Any = 0.0
    functions: Any = 0.0
    drawn: Any = 0.0
    indexed: Any = 0.0
    after: tuple[str, ...] = ()
    held: Any = 0.0
    added_to: Any = 0.0
    part: Part = ANY_PART

    @property
    def bytes(self) -> Any:
        """The bytes that one call must read from memory and write to it."""
        return self.read + self.written - self.held

    def within(self, **part: Any) -> Operator:
        """A copy of this operator that belongs to another part of a layer: to a block, or to the attention core."""
        return replace(self, part=replace(self.part, **part))

    def recomputing(self, share: Any) -> Operator:
        """A copy of this operator that computes its output again in the backward pass; the copy keeps nothing.

        Args:
            share: the share of the calls that are repeated.
        """
        name = f"{self.name}_again"
        return replace(self, name=name, phase="input_gradient", stash=0.0 * self.stash, count=self.count * share)

    def lasting(self, time: Any, distance: Any = np.inf) -> Duration:
        """The time of this operator as a record.

        Args:
            time: the seconds of one call.
            distance: the distance of the measured shape that gave the time; infinite if the roofline model gave it.
        """
        # without keywords, because they take longer and a run makes more of these records than of all others
        return Duration(self.name, self.kind, self.phase, time, self.kernels, self.count, distance, self.part)

    def with_heads(self, widths: tuple[Any, Any], keys: Any, edges: Any, dropped: Any) -> Operator:
        """A copy of this fused attention with heads of these widths (keys, values), with this mask and with dropout."""
        narrower, both = np.minimum(*widths), widths[0] + widths[1]
        return replace(self, width=narrower, both_widths=both, keys=keys, edges=edges, dropped=dropped)


@record
class Duration(Record):
    """The time of one call of an operator or a collective.

    Attributes:
        kind, phase: as in `Operator`; the phase of a collective is `communication`.
        time: the seconds of one call.
        kernels: the number of kernels that the host launches for a call.
        count: the number of calls in a layer, on average over the layers.
        distance: the distance of the measured shape whose time this is: 0 if this shape was measured, infinite if the
            roofline model gives the time.
        part: the part of the layer that it is.
    """

    kind: str
    phase: str
    time: Any
    kernels: Any
    count: Any
    distance: Any = np.inf
    part: Part = ANY_PART


# The kinds of matrix products with weights whose operands have the format of products.
WEIGHTED = ("contraction", "grouped_contraction")
# The kinds of the same products in layers whose operands stay in the format of activations.
WIDE = {"contraction": "wide_contraction", "grouped_contraction": "wide_grouped_contraction"}
# The kinds of the products with weights of all layers.
WITH_WEIGHTS = (*WEIGHTED, *WIDE.values())
# The kinds of all matrix products.
CONTRACTIONS = (*WITH_WEIGHTS, "output_head_contraction", "batched_contraction")
# Kinds that describe fused kernels, which some frameworks run as several kernels.
FUSED = ("normalization", "element_wise")
# Kinds that stream through memory and multiply no matrices.
STREAMING = (*FUSED, "single_kernel")
# Kinds that reduce rows.
REDUCING = ("normalization", "loss")


@record
class Tiles(Record):
    """The coefficients that tell how much slower matrix products are because of their shape.

    Attributes:
        medium, small, smallest: the efficiencies of smaller tiles as shares of the efficiency of the largest tile.
        quantization: the share of the idle time in the last wave that is really lost.
        cores: the number of cores that share the tiles of a product.
        ramp_depth: the number by which the inner dimension k counts as larger, because the first loads of a tile have
            nothing to overlap.
        ramp_rows: the number of rows by which m counts as larger, for edges and packing; used if tiles and waves are
            not counted.
        load_time: seconds in which a core gets one byte from the cache.
        latency: seconds that a tile takes besides its work.
        split_time: seconds to add up the parts of a product whose inner dimension k is split.
        exposed_store: the share of the time to store a product that does not overlap the multiplications.
        delivery_time: seconds for which the power lasts to deliver one byte of an operand to a multiplier.
        throttling_time: the seconds at which half of what the power limit costs a product has set in.
        edges: the share of the idle time in partly filled tiles that is really lost.
    """

    medium: Any
    small: Any
    smallest: Any
    quantization: Any
    cores: Any
    ramp_depth: Any
    ramp_rows: Any
    load_time: Any = 0.0
    latency: Any = 0.0
    split_time: Any = 0.0
    exposed_store: Any = 0.0
    delivery_time: Any = 0.0
    throttling_time: Any = 1.0
    edges: Any = 0.0


@record
class Products(Record):
    """How fast an accelerator multiplies matrices.

    Attributes:
        matrix_time: seconds of a multiply-accumulate in the largest products with one weight.
        grouped_time: seconds of a multiply-accumulate in the largest products with one weight for each group of rows.
        batched_time: seconds of a multiply-accumulate in the largest products of activations with activations.
        grouped_gradient_time: seconds of a multiply-accumulate in a weight gradient of a grouped product.
        tiles: how much slower products are because of their shape.
        cached: bytes of a product that caches keep.
        exposed: the share of the time for bytes beyond `cached` that does not overlap the multiplications.
        group_overhead: fixed seconds of each group of a grouped product.
        operand: bytes of an entry that products with weights read.
        activation: bytes of an entry that products of activations read.
    """

    matrix_time: Any
    grouped_time: Any
    grouped_gradient_time: Any
    batched_time: Any
    tiles: Any
    cached: Any
    exposed: Any
    group_overhead: Any
    operand: Any
    activation: Any


@record
class AttentionMask(Record):
    """Which scores of an attention its mask leaves.

    Attributes:
        share: the share of the keys to which a query attends, on average.
        edges: the edges of the mask: 0 without a mask, 1 with a causal mask, 2 with a window, too.
    """

    share: Any
    edges: Any


@record
class AttentionRamp(Record):
    """What a pass of a fused attention costs besides the scores that its mask leaves.

    Attributes:
        length: the keys that a query costs besides those to which it attends.
        edge_length: the keys beyond an edge of the mask that a kernel computes for each query.
        width: the width of a head at which the exponentials take as long as the products.
        wide: the rate for heads whose keys and values together have over 256 entries, as a share of the others.
    """

    length: Any
    edge_length: Any
    width: Any
    wide: Any = 1.0


@record
class FusedAttention(Record):
    """How fast an accelerator runs attention as one kernel.

    Attributes:
        forward_rate, backward_rate: flop/s over long sequences.
        forward_ramp, backward_ramp: what short sequences, masks and narrow heads cost in these passes.
        dropout_fraction: the rate of an attention with dropout as a share of the rate without dropout.
        softmax_time: seconds of the softmax of each score that do not overlap the products.
        waiting_rows: rows of queries that the cores could process while they wait for the last block.
        speedup: how many times as fast the products are in the format of attention as in 16 bits.
    """

    forward_rate: Any
    backward_rate: Any
    forward_ramp: AttentionRamp
    backward_ramp: AttentionRamp
    dropout_fraction: Any
    softmax_time: Any
    waiting_rows: Any = 0.0
    speedup: Any = 1.0


@record
class EntryKind(Record):
    """A kind of entries of compressed keys.

    Attributes:
        share: the share of the layers that read such entries.
        ratio: the tokens for which an entry stands.
        most: the most entries that a token reads.
    """

    share: Any
    ratio: Any
    most: Any


@record
class ScanWork(Record):
    """The work of the chunks of linear attention in a layer, for a micro-batch on one accelerator.

    Attributes:
        flops, backward_flops: operations of the forward and of the backward pass; a multiply-accumulate is two.
        moved: bytes that the kernels of the forward pass move.
    """

    flops: Any
    backward_flops: Any
    moved: Any

    @property
    def multiply_accumulates(self) -> Any:
        """The multiply-accumulates of the forward pass."""
        return self.flops / 2


@record
class ChunkedScan(Record):
    """How an accelerator computes the chunks of linear attention: its cores, and the numbers of the kernels.

    Attributes:
        number, frequency, flop_rate, bandwidth: as in `Cores`.
        numbers: the numbers of the kernels, in the order of the fields of `ScanKernel`.
        rearranged: bytes that a core rearranges in a cycle.
    """

    number: Any
    frequency: Any
    flop_rate: Any
    bandwidth: Any
    numbers: tuple[Any, ...]
    rearranged: Any

    @property
    def cores(self) -> Cores:
        """The cores of the accelerator."""
        return Cores(self.number, self.frequency, self.flop_rate, self.bandwidth)

    @property
    def kernel(self) -> ScanKernel:
        """The kernels of the scan."""
        return ScanKernel(*self.numbers)


@record
class Streams(Record):
    """How fast an accelerator moves data, and how fast it processes them on the way.

    Attributes:
        bandwidth: byte/s that large kernels reach.
        normalization: the bandwidth of kernels that reduce rows, as a share of `bandwidth`.
        traffic_factor: the bytes that norms and element-wise operators move, as a multiple of the bytes of fused
            kernels.
        update_factor: the bytes that an optimizer's kernels move, as a multiple of the bytes of fused kernels.
        ramp: the bytes by which the traffic of a kernel counts as more than it is, because small kernels are slower.
        vector_rate: flop/s of kernels that multiply no matrices.
        function_time: seconds of an exponential, a root or a quotient; 0 if special units are as fast as memory.
        drawing_time: seconds of a random number; 0 if special units are as fast as memory.
        address_time: seconds to compute the address of an entry.
    """

    bandwidth: Any
    normalization: Any
    traffic_factor: Any
    update_factor: Any
    ramp: Any
    vector_rate: Any
    function_time: Any
    drawing_time: Any
    address_time: Any


@record
class Kernels(Record):
    """How fast an accelerator runs its kernels.

    Attributes:
        products, attention, streams: the coefficients of matrix products, of fused attention, and of all other kernels.
        scan: those of the chunks of linear attention, if a layer has it; else empty.
        overhead: seconds between two kernels on the device.
        launch_time: seconds in which the host launches a kernel.
        time: the function that computes the time of one call of an operator from these rates.
        iteration_time: seconds in which all cores compute one of Sinkhorn's iterations of a token, on average.
    """

    products: Any
    attention: Any
    scan: tuple[ChunkedScan, ...]
    streams: Any
    overhead: Any
    launch_time: Any
    time: Callable[[Any, Any], Any]
    iteration_time: Any = 0.0

    def durations(self, operators: Iterable[Operator]) -> tuple[Duration, ...]:
        """The time of one call of each operator."""
        return tuple(o.lasting(self.time(o, self)) for o in operators)

    def at_full_clock(self, clock: Any) -> Kernels:
        """A copy of these coefficients, converted to the full clock.

        Args:
            clock: the clock of these coefficients, as a share of the full clock.
        """
        products, attention = self.products, self.attention
        times = ("matrix_time", "grouped_time", "grouped_gradient_time", "batched_time")
        tiles = replace(products.tiles, delivery_time=products.tiles.delivery_time * clock)
        products_at_full_clock = replace(
            products, tiles=tiles, **{name: getattr(products, name) * clock for name in times}
        )
        attention_rates = {
            "forward_rate": attention.forward_rate / clock,
            "backward_rate": attention.backward_rate / clock,
        }
        return replace(self, products=products_at_full_clock, attention=replace(attention, **attention_rates))


@record
class TimedKernels(Record):
    """The kernels of one kind whose times were measured in short runs. Each field has a value for each kernel.

    Attributes:
        kind: the kind of the operators that they stand for.
        phases: the passes that they stand for.
        precision: the format of their factors.
        operator: their shapes and their work.
        time: their measured seconds.
        converting: the part of these seconds in which the library converts a factor to a narrow format.
        prepared: the bytes that the library also moves to prepare the inputs; bytes in a cache count less.
        share: the share of the scores that an attention computes, about a half if it is causal; 1 for other kernels.
    """

    kind: str
    phases: tuple[str, ...]
    precision: str
    operator: Operator
    time: Any
    converting: Any
    prepared: Any = 0.0
    share: Any = 1.0

    def of(self, kind: str) -> TimedKernels:
        """A copy of these kernels that stands for operators of another kind."""
        return replace(self, kind=kind, operator=replace(self.operator, kind=kind))

    def at(self, indices: Any) -> TimedKernels:
        """A copy with the measured kernels at the given indices. Its numbers have the shape of the array of indices."""
        return self.mapped(lambda value: value[indices] if np.ndim(value) else value)


def total(values: Iterable[Any]) -> Any:
    """The sum of values, added from left to right.

    With this order an array gives bit for bit the sums that its elements give alone. The sum of no values is zero.
    """
    return reduce(add, list(values) or [0.0])


def product(values: Iterable[Any]) -> Any:
    """The product of values, multiplied from left to right."""
    return reduce(mul, values)


def latest(times: Iterable[Any]) -> Any:
    """The largest of several times, element by element."""
    return reduce(np.maximum, times)


def least(values: Iterable[Any]) -> Any:
    """The least of several values, element by element."""
    return reduce(np.minimum, values)


def time_of(durations: Iterable[Duration]) -> Any:
    """The time of all calls of the given operators or collectives; zero if there are none."""
    return total(d.time * d.count for d in durations)


def of_phase(phase: str, durations: Iterable[Duration]) -> Any:
    """The time of all calls of the operators of one phase; zero if there are no such operators."""
    return time_of(d for d in durations if d.phase == phase)


def stash_of(operators: Iterable[Operator]) -> Any:
    """The bytes that the forward operators keep for the backward pass, in all their calls together."""
    return total(o.stash * o.count for o in operators if o.phase == "forward")
