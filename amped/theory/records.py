"""Plural things: frozen records whose fields are arrays that broadcast.

A record's texts, switches, tables and equations are structure, its other fields are float64 arrays, or records and tuples of
such; `mapped` applies a function to the arrays.
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
    batch: Any
    count: Any
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
    Of an all-to-all `crossing` is what crosses nodes, as a share of what would without copies for each accelerator there,
    and `forwarded` 1 where what comes from other nodes passes inside once more. `after` are the nodes of the forward pass that
    it waits for; see `Operator`.
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

    `kind` is contraction (with a weight), grouped_contraction (with one for each group of rows), output_head_contraction (in 16
    bit), batched_contraction (of activations), fused_attention, normalization, element_wise, single_kernel (element-wise,
    counted as it is) or loss; `phase` is forward, input_gradient, weight_gradient or
    update. Contractions are `batch` products of m × k with k × n; of the others `m` rows of `n`
    entries are worked on. `read` and `written` are the bytes that must move, `stash` those kept for the backward pass.
    `kernels` are launched in each of `count` calls, on average in a layer. A product's k comes in `panels`. A
    fused attention has heads of a `width`, and 1 as `dropped` where it drops scores out. `functions` are the exponentials,
    roots and quotients that a call evaluates, `drawn` the random numbers it draws.
    `after` are the nodes of the forward pass that it waits for: operators by name, collectives by name and kind. A node that a
    network does not have hands on what it waits for.
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


# Operations, bytes read and written, and where there are any functions evaluated and random numbers drawn.
Work = tuple[Any, ...]
# Kinds of products with weights.
WEIGHTED = ("contraction", "grouped_contraction")
# Kinds that stand for what fused kernels do, and that frameworks may do in several.
FUSED = ("normalization", "element_wise")
# Kinds that pass over memory and multiply no matrices.
STREAMING = (*FUSED, "single_kernel")
# Kinds that add up rows.
REDUCING = ("normalization", "loss")


def contraction(
    gemm: Gemm,
    flop: Any,
    operand: Any,
    result: Any,
    gradient: Any = None,
    stash: Any = 0.0,
    count: Any = 1.0,
    kind: str = "contraction",
) -> tuple[Operator, ...]:
    """A matrix product and the products that give the gradients of its two operands.

    `flop` is what one multiply-accumulate counts; `operand` and `result` are bytes of an entry that is multiplied and of
    one that comes out; `gradient` are those of a weight's gradient, to which its product is added, and None where both
    operands are activations. Each panel of k passes over the output once more. Source: arXiv 2410.00273, section 3.
    """
    m, n, k, batch, panels = gemm.m, gemm.n, gemm.k, gemm.batch, gemm.panels
    flops = m * n * k * batch * flop
    left, right, out = m * k * batch, k * n * batch, m * n * batch * panels
    own = (flops, (left + right) * operand, out * result)
    of_input = (flops, (out + right) * operand, left * result)
    of_weight = (flops, (left + out) * operand, right * result)
    phase, none = "weight_gradient", 0.0 * stash
    if gradient is None:
        kind, phase = "batched_contraction", "input_gradient"
    else:
        of_weight = (flops, (left + out) * operand + right * gradient, right * gradient)
    return (
        Operator(gemm.name, kind, "forward", m, n, k, batch, *own, stash, panels, count, panels),
        Operator(gemm.name, kind, "input_gradient", m, k, n, batch, *of_input, none, panels, count, panels),
        Operator(gemm.name, kind, phase, k, n, m, batch, *of_weight, none, panels, count, panels),
    )


def streamed(
    name: str, kind: str, rows: Any, width: Any, forward: Work, backward: Work, stash: Any, count: Any = 1.0
) -> tuple[Operator, Operator]:
    """An operator that passes over its tensors once: `forward` and `backward` are flops, bytes read, bytes written.

    Behind them may stand the functions evaluated, and the random numbers drawn.
    """

    def passed(phase: str, work: Work, kept: Any) -> Operator:
        flops, read, written, functions, drawn, *_ = (*work, 0.0, 0.0)
        return Operator(
            name,
            kind,
            phase,
            rows,
            width,
            0.0,
            1.0,
            flops,
            read,
            written,
            kept,
            1.0,
            count,
            functions=functions,
            drawn=drawn,
        )

    return passed("forward", forward, stash), passed("input_gradient", backward, 0.0 * stash)


def activation_work(entries: Any, inputs: Any, precision: Any, mask: Any, again: Any, flop: Any) -> tuple[Work, Work]:
    """Work of an activation function forward and backward: 9 operations an entry, and 14; an exponential and a quotient.

    `inputs` are its bytes with those of a gate; `mask` those an entry keeps where it works in place; `again` is 1 where the
    backward pass computes its output once more. Source: arXiv 2007.00072, table 3 (element-wise); GELU by its tanh form.
    """
    output = entries * precision
    forward = (9 * entries * flop, inputs, output + entries * mask, 2 * entries)
    read = inputs * (1 + again) + output + entries * mask
    return forward, ((14 + 9 * again) * entries * flop, read, inputs + again * output, (2 + 2 * again) * entries)


@dataclass(frozen=True, slots=True)
class Kernels(Record):
    """How fast an accelerator runs its kernels: rates that large ones sustain, and what the others lose.

    Attributes:
        matrix_time, grouped_time, batched_time: seconds of a multiply-accumulate in the largest products with a weight,
            with one for each group of rows, and of activations.
        fused_forward_rate, fused_backward_rate: flop/s of a fused attention over long sequences.
        vector_rate: flop/s of everything else; softmax_time: seconds of a score that products do not hide.
        bandwidth: byte/s that large kernels reach, those that reduce rows `normalization` of it; traffic_factor: bytes that
            norms and element-wise operators move for each of fused ones; bandwidth_ramp: bytes of time lost by each.
        ramp_depth, ramp_length, ramp_width: k of a product, length of a sequence, and width of a head, lost to filling
            the pipeline; dropout_fraction: rate of an attention with dropout as a share of one without.
        medium, small, smallest: efficiency of smaller tiles; quantization: share of partly filled tiles and waves lost.
        cores: that share out the tiles of a product.
        overhead, launch_time: seconds between two kernels on the device, and to launch one from the host.
        ramp_rows: m of a product lost to edges and packing, where tiles and waves are not counted.
        cached: bytes of a product that caches keep; exposed: share of the others that its computing does not hide.
        function_time, drawing_time: seconds of an exponential, root or quotient, and of a random number, where no units of
            their own keep pace with memory.
    """

    matrix_time: Any
    grouped_time: Any
    batched_time: Any
    fused_forward_rate: Any
    fused_backward_rate: Any
    vector_rate: Any
    softmax_time: Any
    bandwidth: Any
    normalization: Any
    traffic_factor: Any
    bandwidth_ramp: Any
    ramp_depth: Any
    ramp_length: Any
    ramp_width: Any
    dropout_fraction: Any
    medium: Any
    small: Any
    smallest: Any
    quantization: Any
    cores: Any
    overhead: Any
    launch_time: Any
    ramp_rows: Any = 0.0
    cached: Any = 0.0
    exposed: Any = 0.0
    function_time: Any = 0.0
    drawing_time: Any = 0.0


def total(values: Iterable[Any]) -> Any:
    """The sum, added left to right so that an array gives bit for bit what its elements give alone."""
    return reduce(add, values)


def latest(times: Iterable[Any]) -> Any:
    """The latest of several times, element by element."""
    return reduce(np.maximum, times)


# What the time of a way that is not allowed is multiplied with: no minimum takes it, and no time stays none.
NEVER = 1e300


def fastest(*ways: tuple[Any, Any]) -> Any:
    """The least time of several ways, each told with whether it is allowed; one of them is."""
    return reduce(np.minimum, (time * np.where(allowed, 1.0, NEVER) for allowed, time in ways))


def of_phase(phase: str, durations: Iterable[Duration]) -> Any:
    """The time of all calls in one pass; nothing where there are none."""
    return total([0.0, *(d.time * d.count for d in durations if d.phase == phase)])
