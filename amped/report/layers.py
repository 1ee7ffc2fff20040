"""The operators of one layer as a table: work, traffic, what bounds each, its time, and how well it uses the machine."""

from __future__ import annotations

from collections.abc import Iterator

from rich.table import Table

from amped.configuring.kernel_tables import NAME as MEASURED_TABLE
from amped.estimation.breakdown import Message, OperatorLine, layer_lines, tower_lines
from amped.estimation.estimation import Estimation
from amped.estimation.kinds_of_layers import KindLine, kind_lines
from amped.report.summary import heading
from amped.report.tables import Part, drawn, table
from amped.theory.nouns.records import WIDE

PHASES = {"forward": "forward", "input_gradient": "inputs", "weight_gradient": "weights"}
NUMBERS = ("GFLOP", "MB", "FLOP/B", "us", "share", "peak", "MUE")
# Four digits of a number, so that a table of ten columns is 80 wide.
DIGITS = 4
HEADS = ("operator", "pass", *NUMBERS[:3], "bound", *NUMBERS[3:])
# With a table of measured kernels; what else is there can be derived from it, and would not fit beside it.
WITH_TIME_BY = tuple(name for name in (*HEADS, "time by") if name not in ("FLOP/B", "MUE"))
TIME_BY = (
    "time by: measured, of this shape; interpolated, of the nearest measured shape within measured_kernel_distance, scaled by "
    "the law; or law. In % are share and peak, flops as a share of the matrix peak. inputs, weights: gradients of them."
)
# The second table: what stays in memory, and what is sent. Messages of gradients and of sharded weights belong to no operator.
KEPT = ("operator", "kept MB", "weights MB", "message", "MB", "among", "us")
KEPT_MEANINGS = (
    "kept: for the backward pass, unless it is recomputed. weights: of products, as they are held here. message: one call in "
    "the forward pass, among accelerators of a node x nodes; those of gradients and of sharded weights are in --full."
)
OF_KINDS = "Above: a micro-batch in one layer of each kind, with its waits. Below: the average layer; x says how often an operator runs."
OF_TOWER = "Above: the whole tower, of which x says how often an operator runs. Below: one layer of the network."
MEANINGS = (
    "inputs, weights: gradients of them. In % are share, of the time; peak, flops as a share of the matrix peak; and MUE, "
    "compulsory bytes as a share of the memory's peak."
)


@drawn
def layer_table(e: Estimation) -> Iterator[Part]:
    """One layer, one micro-batch, one accelerator: each operator of the forward pass, and its gradients.

    With a table of measured kernels, the last column says where each time comes from.
    """
    yield from heading(e)
    lines, tower = layer_lines(e), tower_lines(e)
    if kinds := kind_lines(e):
        yield _kinds(kinds)
        yield f"\n{OF_KINDS}\n", "dim"
    heads = WITH_TIME_BY if MEASURED_TABLE in e.scenario.sources.given else HEADS
    if tower:
        yield _operators(tower, tuple(head for head in heads if head != "FLOP/B"))
        yield f"\n{OF_TOWER}\n", "dim"
    yield _operators(lines, heads)
    yield f"\n{TIME_BY if heads == WITH_TIME_BY else MEANINGS}\n", "dim"
    yield _kept_and_sent(lines)
    yield f"\n{KEPT_MEANINGS}", "dim"


def _kinds(lines: list[KindLine]) -> Table:
    """A table of the kinds of layers, each with the number of its layers and the time of a micro-batch in one of them."""
    times = ((f"{line.forward_time * 1e6:,.0f}", f"{line.backward_time * 1e6:,.0f}") for line in lines)
    rows = [(line.kind, f"{line.layers}", *cells) for line, cells in zip(lines, times, strict=True)]
    return table(("kind of layer", "layers", "forward us", "backward us"), rows)


def _operators(lines: list[OperatorLine], heads: tuple[str, ...]) -> Table:
    """A table of operators for one micro-batch, with the sums of their work, traffic and time."""
    footers = {"operator": "one micro-batch", "us": _short(sum(line.time for line in lines) * 1e6, 1),
               "GFLOP": _short(sum(line.flops for line in lines) / 1e9, 2),
               "MB": _short(sum(line.bytes for line in lines) / 1e6, 1)}  # fmt: skip
    rows = [[cells[name] for name in heads] for cells in map(_cells, lines)]
    return table(heads, rows, {*heads} - {*NUMBERS}, (), footers, gap=1)


def _kept_and_sent(lines: list[OperatorLine]) -> Table:
    """A table of the forward pass: what each operator keeps, its weights, and the messages that send its result."""
    forward = [line for line in lines if line.phase == "forward"]
    footers = {"operator": "one layer", "kept MB": _megabytes(sum(line.stash for line in forward)),
               "weights MB": _megabytes(sum(line.weights for line in forward))}  # fmt: skip
    rows: list[tuple[str, ...]] = []
    for line in forward:
        memory = [_megabytes(line.stash), _megabytes(line.weights)]
        messages = [_message_cells(message) for message in line.messages] or [("",) * 4]
        if any(memory) or line.messages:
            heads = [(line.name, *memory), *[("",) * 3] * (len(messages) - 1)]
            rows += [(*head, *cells) for head, cells in zip(heads, messages, strict=True)]
    return table(KEPT, rows, ("message",), (), footers)


def _megabytes(number: float) -> str:
    """Bytes in megabytes as text; empty for zero."""
    return f"{number / 1e6:,.1f}" if number else ""


def _message_cells(message: Message) -> tuple[str, str, str, str]:
    """The cells of a message: kind, megabytes, accelerators inside x across nodes, and microseconds."""
    time = "" if message.time is None else f"{message.time * 1e6:,.1f}"
    return message.kind, f"{message.bytes / 1e6:,.1f}", f"{message.intra:g} x {message.inter:g}", time


def _short(number: float, places: int) -> str:
    """A number with four digits, or whole, and with at most `places` digits after the point."""
    digits_before_point = len(f"{abs(number):.0f}")
    return f"{number:,.{max(0, min(places, DIGITS - digits_before_point))}f}"


def _cells(line: OperatorLine) -> dict[str, str]:
    """The cells of an operator by their head."""
    calls = f" x{line.count:.3g}" if line.count != 1 else ""
    wide = " wide" if line.kind in WIDE.values() else ""
    return {
        "operator": f"{line.name}{wide}{calls}",
        "pass": PHASES[line.phase],
        "GFLOP": _short(line.flops / 1e9, 2),
        "MB": _short(line.bytes / 1e6, 1),
        "FLOP/B": _short(line.intensity, 1),
        "bound": line.bound,
        "us": _short(line.time * 1e6, 1),
        "share": f"{line.share * 100:.1f}",
        "peak": f"{line.peak_fraction * 100:.1f}",
        "MUE": f"{line.memory_use_efficiency * 100:.1f}",
        "time by": line.time_by,
    }
