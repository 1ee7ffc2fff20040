"""Plural things: frozen records whose fields are arrays that broadcast.

A record's texts, switches, tables and equations are structure, its other fields are float64 arrays, or records and
tuples of such; `mapped` applies a function to the arrays.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, fields, replace
from functools import reduce
from operator import add
from types import FunctionType
from typing import Any, Self

import numpy as np

# What is no array of a record: texts, switches, tables and equations.
STRUCTURE = (str, bool, Mapping, FunctionType)


@dataclass(frozen=True, slots=True)
class Record:
    """A row of named arrays, or of records of such."""

    name: str

    def named(self, name: str) -> Self:
        """The same record under another name."""
        return replace(self, name=name)

    def mapped(self, function: Callable[[Any], Any]) -> Self:
        """The same record with `function` applied to each array."""
        return type(self)(*(_mapped(getattr(self, field.name), function) for field in fields(self)))


def _mapped(value: Any, function: Callable[[Any], Any]) -> Any:
    """A field of a record with `function` applied to its arrays, and to those of records and tuples in it."""
    if isinstance(value, Record):
        return value.mapped(function)
    if isinstance(value, tuple):
        return tuple(_mapped(each, function) for each in value)
    return value if isinstance(value, STRUCTURE) else function(value)


@dataclass(frozen=True, slots=True)
class Gemm(Record):
    """`batch` products of an m × k with a k × n matrix, called `count` times on average in a layer it belongs to.

    Where k comes in `panels`, each panel's product is added to the output before the next.
    """

    m: Any
    n: Any
    k: Any
    batch: Any = 1.0
    count: Any = 1.0
    panels: Any = 1.0

    @property
    def multiply_accumulates(self) -> Any:
        """Multiply-accumulates of the layer's calls."""
        return self.m * self.n * self.k * self.batch * self.count


@dataclass(frozen=True, slots=True)
class Group(Record):
    """Accelerators that communicate with one another: `intra` inside each of `inter` fast domains ("nodes")."""

    intra: Any
    inter: Any

    @property
    def degree(self) -> Any:
        """Accelerators of the group."""
        return self.intra * self.inter


@dataclass(frozen=True, slots=True)
class Collective(Record):
    """A communication of `volume` bytes in a group, called `count` times.

    `volume` is the whole payload an accelerator holds before (or after) it; what crosses a link follows from `kind`.
    Of an all-to-all `crossing` is what crosses nodes, as a share of what would without copies for each accelerator
    there, and `forwarded` 1 where what comes from other nodes passes inside once more. `after` are the nodes of the
    forward pass that it waits for; see `Operator`.
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
        """Accelerators of the group inside each node."""
        return self.group.intra

    @property
    def inter(self) -> Any:
        """Nodes of the group."""
        return self.group.inter

    def of(self, group: Group, volume: Any) -> Collective:
        """The same collective in another group and with another payload."""
        return replace(self, group=group, volume=volume)


@dataclass(frozen=True, slots=True)
class Operator(Record):
    """One operator in one pass of a block, for one micro-batch on one accelerator.

    `kind` is contraction (with a weight), grouped_contraction (with one for each group of rows),
    output_head_contraction (in 16 bit), batched_contraction (of activations), fused_attention, normalization,
    element_wise, single_kernel (element-wise, counted as it is) or loss; `phase` is forward, input_gradient,
    weight_gradient or update. Contractions are `batch` products of m × k with k × n; of the others `m` rows of `n`
    entries are worked on. `read` and `written` are the bytes that must move, `stash` those kept for the backward pass.
    `kernels` are launched in each of `count` calls, on average in a layer. A product's k comes in `panels`. A fused
    attention has heads of a `width`, and 1 as `dropped` where it drops scores out. `functions` are the exponentials,
    roots and quotients that a call evaluates, `drawn` the random numbers it draws.
    `after` are the nodes of the forward pass that it waits for: operators by name, collectives by name and kind. A node
    that a network does not have hands on what it waits for.
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
        """Bytes that must move in one call: what is read and what is written."""
        return self.read + self.written

    def with_heads(self, width: Any, dropped: Any) -> Operator:
        """The same attention, with heads of a width and with or without dropout."""
        return replace(self, width=width, dropped=dropped)


@dataclass(frozen=True, slots=True)
class Duration(Record):
    """The time of one call of an operator, `kernels` launches, `count` calls on average in a layer."""

    kind: str
    phase: str
    time: Any
    kernels: Any
    count: Any

    def recorded(self) -> Duration:
        """The same operator in a recorded graph, of which the host launches no kernel."""
        return replace(self, kernels=0 * self.kernels)


# Kinds of products with weights.
WEIGHTED = ("contraction", "grouped_contraction")
# All kinds of products.
CONTRACTIONS = (*WEIGHTED, "output_head_contraction", "batched_contraction")
# Kinds that stand for what fused kernels do, and that frameworks may do in several.
FUSED = ("normalization", "element_wise")
# Kinds that pass over memory and multiply no matrices.
STREAMING = (*FUSED, "single_kernel")
# Kinds that add up rows.
REDUCING = ("normalization", "loss")


@dataclass(frozen=True, slots=True)
class Tiles(Record):
    """What products lose to their shape.

    Attributes:
        medium, small, smallest: efficiency of smaller tiles; quantization: share of partly filled tiles and waves lost.
        cores: that share out the tiles of a product.
        ramp_depth: k of a product lost to filling the pipeline; ramp_rows: m lost to edges and packing, where tiles and
            waves are not counted.
        load_time: seconds in which a core has a byte from the cache.
        latency, split_time: seconds of a tile, and to add up the parts of a product whose k is cut.
        exposed_store: share of storing a product that nothing hides.
        throttled: share by which products are slower that take far longer than `throttling_time`.
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
        matrix_time, grouped_time, batched_time: seconds of a multiply-accumulate in the largest products with a weight,
            with one for each group of rows, and of activations.
        grouped_gradient_time: the same of a weight's gradient with one for each group of rows; group_overhead: seconds
            of each group beside.
        tiles: what smaller ones lose.
        cached: bytes of a product that caches keep; exposed: share of the others that its computing does not hide.
        operand, activation: bytes of an entry of what products with a weight read, and products of activations.
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
        ramp_length, ramp_width: length of a sequence, and width of a head, lost to filling the pipeline.
        dropout_fraction: rate of an attention with dropout as a share of one without.
        softmax_time: seconds of a score that products do not hide.
        waiting_rows: rows of queries that the cores could do while they wait for the last block.
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
    """How fast an accelerator moves data, and works on what passes by.

    Attributes:
        bandwidth: byte/s that large kernels reach, those that reduce rows `normalization` of it.
        traffic_factor: bytes that norms and element-wise operators move for each of fused ones.
        ramp: bytes of time lost by each.
        vector_rate: flop/s of what multiplies no matrices.
        function_time, drawing_time: seconds of an exponential, root or quotient, and of a random number, where no units
            of
            their own keep pace with memory.
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
    """How fast an accelerator runs its kernels: rates that large ones sustain, and what the others lose.

    `overhead` and `launch_time` are seconds between two kernels on the device, and to launch one from the host.
    """

    products: Any
    attention: Any
    streams: Any
    overhead: Any
    launch_time: Any


def total(values: Iterable[Any]) -> Any:
    """The sum, added left to right so that an array gives bit for bit what its elements give alone."""
    return reduce(add, values)


def latest(times: Iterable[Any]) -> Any:
    """The latest of several times, element by element."""
    return reduce(np.maximum, times)


def least(values: Iterable[Any]) -> Any:
    """The least of several values, element by element."""
    return reduce(np.minimum, values)


# What the time of a way that is not allowed is multiplied with: no minimum takes it, and no time stays none.
NEVER = 1e300


def fastest(*ways: tuple[Any, Any]) -> Any:
    """The least time of several ways, each told with whether it is allowed; one of them is."""
    return reduce(np.minimum, (time * np.where(allowed, 1.0, NEVER) for allowed, time in ways))


def of_phase(phase: str, durations: Iterable[Duration]) -> Any:
    """The time of all calls in one pass; nothing where there are none."""
    return total([0.0, *(d.time * d.count for d in durations if d.phase == phase)])


def stash_of(operators: Iterable[Operator]) -> Any:
    """What operators keep for the backward pass."""
    return total([0.0, *(o.stash * o.count for o in operators if o.phase == "forward")])
