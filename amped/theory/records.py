"""Plural things: frozen records whose fields are arrays that broadcast.

The texts, switches, tables and equations of a record are its structure. Its other fields are float64 arrays, or records
and tuples of arrays; `mapped` applies a function to the arrays.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, fields, replace
from functools import reduce
from operator import add
from types import FunctionType
from typing import Any, Self

import numpy as np

# The types of fields that are no arrays: texts, switches, tables and equations.
STRUCTURE = (str, bool, Mapping, FunctionType)


@dataclass(frozen=True, slots=True)
class Record:
    """A row of named arrays, or of records of arrays."""

    name: str

    def named(self, name: str) -> Self:
        """This record under another name."""
        return replace(self, name=name)

    def mapped(self, function: Callable[[Any], Any]) -> Self:
        """This record with `function` applied to each array."""
        return type(self)(*(_mapped(getattr(self, field.name), function) for field in fields(self)))


def _mapped(value: Any, function: Callable[[Any], Any]) -> Any:
    """A field of a record with `function` applied to its arrays, also inside records and tuples."""
    if isinstance(value, Record):
        return value.mapped(function)
    if isinstance(value, tuple):
        return tuple(_mapped(each, function) for each in value)
    return value if isinstance(value, STRUCTURE) else function(value)


@dataclass(frozen=True, slots=True)
class Gemm(Record):
    """`batch` products of an m × k matrix with a k × n matrix.

    A layer calls them `count` times on average. If the inner dimension k arrives in `panels`, the product of each panel
    is added to the output before the next panel.
    """

    m: Any
    n: Any
    k: Any
    batch: Any = 1.0
    count: Any = 1.0
    panels: Any = 1.0

    @property
    def multiply_accumulates(self) -> Any:
        """The number of multiply-accumulates of all calls in a layer."""
        return self.m * self.n * self.k * self.batch * self.count


@dataclass(frozen=True, slots=True)
class Group(Record):
    """Accelerators that communicate with one another: `intra` of them inside each of `inter` fast domains ("nodes")."""

    intra: Any
    inter: Any

    @property
    def degree(self) -> Any:
        """The number of accelerators of the group."""
        return self.intra * self.inter


@dataclass(frozen=True, slots=True)
class Collective(Record):
    """A communication of `volume` bytes in a group, called `count` times.

    Attributes:
        volume: the whole payload that an accelerator holds before the collective, or after it. What crosses a link
            follows from `kind`.
        crossing: for an all-to-all, what crosses nodes, as a share of what would cross if each accelerator there got a
            copy of its own.
        forwarded: for an all-to-all, 1 if messages from other nodes also pass over the links inside the node.
        after: the nodes of the forward pass for which it waits, as in `Operator`.
    """

    kind: str
    volume: Any
    group: Group
    count: Any
    crossing: Any = 1.0
    forwarded: Any = 0.0
    after: tuple[str, ...] = ()

    @property
    def intra(self) -> Any:
        """The number of accelerators of the group inside each node."""
        return self.group.intra

    @property
    def inter(self) -> Any:
        """The number of nodes of the group."""
        return self.group.inter

    def of(self, group: Group, volume: Any) -> Collective:
        """This collective in another group and with another payload."""
        return replace(self, group=group, volume=volume)


@dataclass(frozen=True, slots=True)
class Operator(Record):
    """One operator in one pass of a block, for one micro-batch on one accelerator.

    Attributes:
        kind: contraction (with a weight), grouped_contraction (with one weight for each group of rows),
            output_head_contraction (in 16 bit), batched_contraction (of activations), fused_attention, normalization,
            element_wise, single_kernel (element-wise; the traffic factor of unfused frameworks does not apply), or
            loss.
        phase: forward, input_gradient, weight_gradient or update.
        m, n, k, batch: a contraction is `batch` products of m × k with k × n; other operators work on `m` rows of `n`
            entries.
        read, written: bytes that must move.
        stash: bytes kept for the backward pass.
        kernels: the number of kernel launches of a call.
        count: the number of calls in a layer, on average.
        panels: the number of parts in which the inner dimension k of a product arrives.
        width: the width of a head of a fused attention.
        dropped: 1 if a fused attention has dropout, else 0.
        functions: exponentials, roots and quotients that a call evaluates.
        drawn: random numbers that a call draws.
        after: the nodes of the forward pass for which it waits: operators by name, collectives by name and kind. If a
            network does not have such a node, the operator waits for what that node would wait for.
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
    dropped: Any = 0.0
    functions: Any = 0.0
    drawn: Any = 0.0
    after: tuple[str, ...] = ()

    @property
    def bytes(self) -> Any:
        """The bytes that must move in one call: those read and those written."""
        return self.read + self.written

    def again(self, share: Any) -> Operator:
        """This operator once more in the backward pass, for a share of its calls; it keeps nothing more."""
        name = f"{self.name}_again"
        return replace(self, name=name, phase="input_gradient", stash=0.0 * self.stash, count=self.count * share)

    def with_heads(self, width: Any, dropped: Any) -> Operator:
        """This attention with heads of another width, and with or without dropout."""
        return replace(self, width=width, dropped=dropped)


@dataclass(frozen=True, slots=True)
class Duration(Record):
    """The time of one call of an operator, with `kernels` launches, and with `count` calls in a layer on average."""

    kind: str
    phase: str
    time: Any
    kernels: Any
    count: Any

    def recorded(self) -> Duration:
        """This operator in a recorded graph (CUDA graph); the host launches none of its kernels."""
        return replace(self, kernels=0 * self.kernels)


# The kinds of matrix products with weights.
WEIGHTED = ("contraction", "grouped_contraction")
# The kinds of all matrix products.
CONTRACTIONS = (*WEIGHTED, "output_head_contraction", "batched_contraction")
# Kinds that describe fused kernels, which some frameworks run as several kernels.
FUSED = ("normalization", "element_wise")
# Kinds that stream through memory and multiply no matrices.
STREAMING = (*FUSED, "single_kernel")
# Kinds that reduce rows.
REDUCING = ("normalization", "loss")


@dataclass(frozen=True, slots=True)
class Tiles(Record):
    """What matrix products lose because of their shape.

    Attributes:
        medium, small, smallest: the efficiency of smaller tiles, relative to the largest.
        quantization: the share that is really lost of the idle time of partly filled tiles and waves.
        cores: the number of cores that share the tiles of a product.
        ramp_depth: the part of k lost to fill the pipeline.
        ramp_rows: the additional rows m for edges and packing, if tiles and waves are not counted.
        load_time: seconds in which a core gets one byte from the cache.
        latency: seconds of a tile besides its work.
        split_time: seconds to add up the parts of a product whose k is split.
        exposed_store: the share of storing a product that nothing hides.
        throttled: the share by which products are slower that take far longer than `throttling_time`.
        throttling_time: seconds.
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
    throttled: Any = 0.0
    throttling_time: Any = 1.0


@dataclass(frozen=True, slots=True)
class Products(Record):
    """How fast an accelerator multiplies matrices.

    Attributes:
        matrix_time, grouped_time, batched_time: seconds of a multiply-accumulate in the largest products: with one
            weight, with one weight for each group of rows, and of activations.
        grouped_gradient_time: seconds of a multiply-accumulate in a weight gradient of a grouped product.
        tiles: what smaller products lose.
        cached: bytes of a product that caches keep.
        exposed: the share of its other bytes that its computation does not hide.
        group_overhead: fixed seconds of each group of a grouped product.
        operand, activation: bytes of an entry that products with weights read, and that products of activations read.
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


@dataclass(frozen=True, slots=True)
class FusedAttention(Record):
    """How fast an accelerator runs attention as one kernel.

    Attributes:
        forward_rate, backward_rate: flop/s over long sequences.
        ramp_length, ramp_width: the sequence length, and the width of a head, that are lost to fill the pipeline.
        dropout_fraction: the rate of an attention with dropout as a share of the rate without dropout.
        softmax_time: seconds for each score that products do not hide.
        waiting_rows: rows of queries that the cores could process while they wait for the last block.
    """

    forward_rate: Any
    backward_rate: Any
    ramp_length: Any
    ramp_width: Any
    dropout_fraction: Any
    softmax_time: Any
    waiting_rows: Any = 0.0


@dataclass(frozen=True, slots=True)
class Streams(Record):
    """How fast an accelerator moves data, and processes them on the way.

    Attributes:
        bandwidth: byte/s that large kernels reach.
        normalization: the bandwidth of kernels that reduce rows, as a share of `bandwidth`.
        traffic_factor: the bytes that norms and element-wise operators move, as a multiple of the bytes of fused
            kernels.
        ramp: bytes lost until a kernel reaches the bandwidth.
        vector_rate: flop/s of kernels that multiply no matrices.
        function_time, drawing_time: seconds of an exponential, root or quotient, and of a random number; 0 if special
            units keep pace with memory.
    """

    bandwidth: Any
    normalization: Any
    traffic_factor: Any
    ramp: Any
    vector_rate: Any
    function_time: Any
    drawing_time: Any


@dataclass(frozen=True, slots=True)
class Kernels(Record):
    """How fast an accelerator runs its kernels: the rates that large kernels sustain, and what others lose.

    Attributes:
        overhead: seconds between two kernels on the device.
        launch_time: seconds in which the host launches a kernel.
    """

    products: Any
    attention: Any
    streams: Any
    overhead: Any
    launch_time: Any


def total(values: Iterable[Any]) -> Any:
    """The sum, added from left to right, so that an array gives bit for bit what its elements give alone."""
    return reduce(add, values)


def latest(times: Iterable[Any]) -> Any:
    """The latest of several times, element by element."""
    return reduce(np.maximum, times)


def least(values: Iterable[Any]) -> Any:
    """The least of several values, element by element."""
    return reduce(np.minimum, values)


# The time of a way that is not allowed is multiplied with this number, so that no minimum takes it; zero stays zero.
NEVER = 1e300


def fastest(*ways: tuple[Any, Any]) -> Any:
    """The least time of several ways, given as pairs (allowed, time); at least one way must be allowed."""
    return reduce(np.minimum, (time * np.where(allowed, 1.0, NEVER) for allowed, time in ways))


def of_phase(phase: str, durations: Iterable[Duration]) -> Any:
    """The time of all calls in one pass; zero if there are none."""
    return total([0.0, *(d.time * d.count for d in durations if d.phase == phase)])


def stash_of(operators: Iterable[Operator]) -> Any:
    """The bytes that operators keep for the backward pass."""
    return total([0.0, *(o.stash * o.count for o in operators if o.phase == "forward")])
