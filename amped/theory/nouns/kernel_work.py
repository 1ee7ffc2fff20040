"""The work of kernels by kind: operations, memory traffic, functions, random numbers, and what is kept for backward.

These facts stand only here. The operators of an estimate, the measured kernels and the ladder of kernel models use
them.
"""

from __future__ import annotations

from functools import reduce
from operator import add
from typing import Any, NamedTuple, TypeVar

from amped.base.record import record
from amped.theory.nouns.records import ANY_PART, WEIGHTED, Gemm, Operator, Part, Record


class Traffic(NamedTuple):
    """The work of one call of a kernel. The tables of this file give it for one entry of one byte.

    Attributes:
        flops: additions, multiplications and comparisons.
        read, written: bytes that the kernel must read and write.
        functions: exponentials, roots and quotients that the kernel computes.
        drawn: random numbers that the kernel draws.
        indexed: entries whose addresses the kernel computes one by one, as their tensors are not contiguous.
    """

    flops: Any = 0.0
    read: Any = 0.0
    written: Any = 0.0
    functions: Any = 0.0
    drawn: Any = 0.0
    indexed: Any = 0.0

    def __add__(self, other: Traffic) -> Traffic:  # type: ignore[override]
        return Traffic(*map(add, self, other))

    def __mul__(self, share: Any) -> Traffic:
        return Traffic(*(part * share for part in self))

    def of(self, entries: Any, precision: Any, flop: Any = 1.0) -> Traffic:
        """The work of a call on the given number of entries, if this record is the work for one entry of one byte.

        Args:
            entries: the number of entries.
            precision: the bytes of an entry.
            flop: the number of operations that an addition, multiplication or comparison counts as.
        """
        flops = self.flops * flop * entries
        moved = (0.0 if _is_zero(part) else part * precision * entries for part in (self.read, self.written))
        counted = (0.0 if _is_zero(part) else part * entries for part in (self.functions, self.drawn, self.indexed))
        return Traffic(flops, *moved, *counted)


def _is_zero(part: Any) -> bool:
    """Whether a part of the work is the number zero: nothing of its kind is done, whatever the entries are."""
    return isinstance(part, int | float) and part == 0


class Work(NamedTuple):
    """The work of a kernel in the forward pass and in the backward pass, and the bytes kept between the passes.

    Attributes:
        forward, backward: the work in each pass; None if the kernel does not run in that pass.
        kept: the bytes that the forward pass keeps for the backward pass.
    """

    forward: Any = None
    backward: Any = None
    kept: Any = 0.0

    def __add__(self, other: Work) -> Work:  # type: ignore[override]
        return Work(*map(add, self, other))

    def __mul__(self, entries: Any) -> Work:
        """The work for this many entries, if this record is the work for one."""
        forward, backward = (None if work is None else work * entries for work in (self.forward, self.backward))
        return Work(forward, backward, self.kept * entries)

    def of(self, entries: Any, precision: Any, flop: Any = 1.0) -> Work:
        """The work of a call on the given number of entries, if this record is the work for one entry of one byte.

        Args:
            entries: the number of entries.
            precision: the bytes of an entry.
            flop: the number of operations that an addition, multiplication or comparison counts as.
        """
        forward, backward = (work.of(entries, precision, flop) for work in (self.forward, self.backward))
        return Work(forward, backward, self.kept * precision * entries)


Amount = TypeVar("Amount", Traffic, Work)


# The operations of an entry are those of arXiv 2007.00072, table 3. GELU is counted in its tanh form. A tanh or a
# sigmoid is one exponential and one quotient.
NORM = Work(Traffic(flops=7, read=1, written=1), Traffic(flops=13, read=4, written=1), kept=1)
SOFTMAX = Work(Traffic(flops=4, read=1, written=1, functions=1), Traffic(flops=4, read=2, written=1), kept=1)
ACTIVATION = Work(
    Traffic(flops=9, read=1, written=1, functions=2), Traffic(flops=14, read=2, written=1, functions=2), kept=1
)
# A causal mask that is a kernel of its own. Source: PyTorch, masked_fill and its gradient.
MASKING = Work(Traffic(flops=1, read=1, written=1), Traffic(flops=1, read=1, written=1))
DROPOUT = Work(Traffic(flops=1, read=1, written=1, drawn=1), Traffic(flops=1, read=1, written=1))
# For each logit a cast, maximum, difference, exponential, sum and logarithm. Source: Megatron-LM,
# vocab_parallel_cross_entropy.
CROSS_ENTROPY = Work(
    Traffic(flops=6, read=1, written=1, functions=1), Traffic(flops=3, read=1, written=1, functions=1), kept=1
)
# Forward, a row of the table is read; backward, its gradient is added to that of the table. Source: definition.
EMBEDDING = Work(Traffic(flops=1, read=1, written=1), Traffic(flops=1, read=2, written=1))
# Softmax, top-k and balance loss of a router; each passes over its probabilities once. Source: arXiv 2101.03961,
# section 2.2.
ROUTING = Work(Traffic(flops=6, read=3, written=3), Traffic(flops=6, read=3, written=2), kept=1)
# Rotary positions rotate each pair of entries. Source: arXiv 2104.09864, eq. 34.
ROTATION = Traffic(flops=3, read=1, written=1)
COPY, READ, WRITE = Traffic(read=1, written=1), Traffic(flops=1, read=1), Traffic(written=1)
ADDITION, MOVE = Traffic(flops=1, read=2, written=1), Traffic(flops=1, read=1, written=1)
# SwiGLU has a change of sign, a sum and two products besides its functions. Source: arXiv 2002.05202, equation 6.
SWIGLU = Traffic(flops=4, read=2, written=1, functions=2)
# Adam updates a parameter in full precision with its gradient and moments; its functions are a root, and the quotients
# by this root and by the bias. Source: arXiv 1412.6980, algorithm 1.
ADAM = Traffic(flops=15, read=4, written=3, functions=3)
# The backward pass of a fused attention has 2.5 times the products of its forward pass, which has two: it computes the
# scores again, and four gradient products. Source: arXiv 2307.08691, section 4.1.
FUSED_BACKWARD_PRODUCTS = 2.5


def fused_backward_flops(scores: Any, values: Any, products: Any = FUSED_BACKWARD_PRODUCTS) -> Any:
    """The flops of the backward pass of a fused attention.

    The gradients of both operands of a product take twice the flops of the product. The scores are computed again; they
    are the wider product if queries and keys are wider than values.

    Args:
        scores: the flops of the scores in the forward pass.
        values: the flops of the weighted values in the forward pass.
        products: the products of the backward pass for each product of the forward pass.

    Source: arXiv 2307.08691, section 4.1.
    """
    return 2 * (scores + values) + 2 * (products - 2) * scores


def fused(*parts: Traffic) -> Traffic:
    """The work of several kernels fused into one.

    The fused kernel reads only what the first kernel reads, and writes only what the last kernel writes.
    """
    work = reduce(add, parts)
    return work._replace(read=parts[0].read, written=parts[-1].written)


@record
class EntryCosts(Record):
    """The bytes of an entry of a tensor, and the number of operations that one operation counts as.

    Attributes:
        product: operations that one multiply-accumulate counts as.
        flop: operations that one addition, multiplication or comparison counts as.
        activation: bytes of an activation.
        operand: bytes of an entry that a product with a weight reads.
        gradient: bytes of an entry of a weight gradient.
        frozen: the names of the classes of parameters that training does not change.
        added_to: bytes of an entry of a weight gradient that products in a narrow format add to; 0 for other products.
    """

    product: Any
    flop: Any
    activation: Any
    operand: Any
    gradient: Any
    frozen: tuple[str, ...] = ()
    added_to: Any = 0.0

    def of(self, work: Amount, entries: Any, precision: Any = None) -> Amount:
        """The work of a call on the given number of entries.

        An entry has `precision` bytes, or as many as an activation if `precision` is not given.
        """
        return work.of(entries, self.activation if precision is None else precision, self.flop)


def operator(
    name: str,
    kind: str,
    phase: str,
    sides: tuple[Any, Any, Any, Any],
    work: Traffic,
    *,
    stash: Any = 0.0,
    count: Any = 1.0,
    panels: Any = 1.0,
    after: tuple[str, ...] = (),
    part: Part = ANY_PART,
) -> Operator:
    """An operator in one pass, with the given work for each call.

    `sides` are m, n, k and batch of `Operator`. `panels` is the number of parts in which the inner dimension k of a
    product arrives; one kernel runs for each part. The other arguments are fields of `Operator`.
    """
    return Operator(
        name,
        kind,
        phase,
        *sides,
        **work._asdict(),
        stash=stash,
        kernels=panels,
        count=count,
        panels=panels,
        after=after,
        part=part,
    )


def contraction(
    gemm: Gemm,
    cost: EntryCosts,
    *,
    stash: Any = 0.0,
    count: Any = 1.0,
    kind: str = "contraction",
    after: tuple[str, ...] = (),
    part: Part = ANY_PART,
) -> tuple[Operator, ...]:
    """The operators of a matrix product: the product, and the two products that compute the gradients of its operands.

    The product that computes a weight gradient adds the result to the gradient of earlier micro-batches. If training
    does not change the weight, there is no such product, and no operand is kept for it. Products of activations with
    activations, and the output head, read entries in the precision of activations. Other products may read narrower
    entries, which another operator has cast. If the inner dimension k arrives in several panels, the output is read and
    written once for each panel.

    Args:
        gemm: the sides of the product, its panels and its weight.
        cost: the bytes of the entries.
        stash: the bytes of operands that a call keeps for the backward pass.
        count: the number of calls in a layer.
        kind: the kind of the three operators, as in `Operator`.
        after: what the forward product waits for, besides the casts of its operands.
        part: the part of a layer that the operators are.

    Source: arXiv 2410.00273, section 3.
    """
    m, n, k, batch, panels = gemm.m, gemm.n, gemm.k, gemm.batch, gemm.panels
    flops = m * n * k * batch * cost.product
    left, right, output = m * k * batch, k * n * batch, m * n * batch * panels
    entry_bytes, result_bytes = cost.operand if kind in WEIGHTED else cost.activation, cost.activation
    forward = Traffic(flops, (left + right) * entry_bytes, output * result_bytes)
    left_gradient = Traffic(flops, (output + right) * entry_bytes, left * result_bytes)
    if kind == "batched_contraction":
        phase, right_gradient = "input_gradient", Traffic(flops, (left + output) * entry_bytes, right * result_bytes)
    else:
        accumulated = right * cost.gradient
        phase, right_gradient = (
            "weight_gradient",
            Traffic(flops, (left + output) * entry_bytes + accumulated, accumulated),
        )
    calls: dict[str, Any] = {"count": count, "panels": panels, "part": part}
    after, is_frozen = (f"{gemm.name}_casts", *after), phase == "weight_gradient" and gemm.weights in cost.frozen
    kept_bytes = 0.0 * stash if is_frozen else stash
    added_bytes = right * cost.added_to if kind in WEIGHTED else 0.0
    passes = (
        operator(gemm.name, kind, "forward", (m, n, k, batch), forward, stash=kept_bytes, after=after, **calls),
        operator(gemm.name, kind, "input_gradient", (m, k, n, batch), left_gradient, **calls),
        operator(gemm.name, kind, phase, (k, n, m, batch), right_gradient, **calls).having(added_to=added_bytes),
    )
    return passes[:2] if is_frozen else passes


def streamed(
    name: str,
    kind: str,
    rows: Any,
    width: Any,
    work: Work,
    *,
    count: Any = 1.0,
    after: tuple[str, ...] = (),
    part: Part = ANY_PART,
) -> tuple[Operator, ...]:
    """The operators that read and write `rows` × `width` entries once: one for each pass in which there is work.

    `width` is the number of entries in a row. `work` is the work of a call in both passes; it is None for a pass in
    which the kernel does not run. The other arguments are fields of `Operator`.
    """
    passes = (("forward", work.forward, work.kept), ("input_gradient", work.backward, 0.0))
    return tuple(
        operator(name, kind, phase, (rows, width, 0.0, 1.0), traffic, stash=stash, count=count, after=after, part=part)
        for phase, traffic, stash in passes
        if traffic is not None
    )


@record
class ActivationPolicy(Record):
    """What an activation function keeps for the backward pass.

    Attributes:
        kept: bytes of its input, for one entry.
        mask: bytes of a mask, for one entry.
        recomputed: 1 if the backward pass computes the output again, else 0.
    """

    kept: Any
    mask: Any
    recomputed: Any


def activation_work(up: Gemm, entries: Any, cost: EntryCosts, policy: ActivationPolicy, bias: Any = 0.0) -> Work:
    """The work of an activation function, with its gate if it has one.

    Args:
        up: the product that computes the inputs of the function.
        entries: the number of outputs.
        cost: the costs of an entry.
        policy: what the function keeps. A function that works in place writes a mask, which the backward pass reads. If
            the output is computed again, the backward pass also does the work of the forward pass.
        bias: 1 if the backward pass reads the inputs once more for the gradient of a bias, else 0.
    """
    inputs, output, mask = up.m * up.n * up.batch * cost.activation, entries * cost.activation, entries * policy.mask
    function = cost.of(ACTIVATION.forward, entries)._replace(read=inputs)
    gradient = cost.of(ACTIVATION.backward, entries)._replace(read=inputs + output, written=inputs)
    backward = gradient + function * policy.recomputed + Traffic(read=mask + bias * inputs)
    return Work(function + Traffic(written=mask), backward, entries * policy.kept)


# The networks of a layer that consist of an up projection (with a gate) and a down projection.
NETWORKS = ("feedforward", "experts", "shared_experts")


def shares_of_products(output, up):
    """The share of each product with a weight that the backward pass computes again, by the name of the product.

    Down projections and routers are never computed again. Projections before attention are not in the mapping.

    Args:
        output: the share of the projection after attention.
        up: the share of the up projections of all networks.

    Source: definition.
    """
    zero_shares = dict.fromkeys((*(f"{name}_down" for name in NETWORKS), "router"), 0.0)
    return zero_shares | {"attention_output": output} | {f"{name}_up": up for name in NETWORKS}
