"""The compute graph of the forward pass of a layer between the network's ends: operators and collectives."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass
from typing import Any

from amped.base.numbers import digits
from amped.estimation.breakdown import OperatorLine, collectives, forward_pass, node_of, present_before, step_lines
from amped.estimation.estimation import Estimation
from amped.theory.nouns.records import CONTRACTIONS


@dataclass(frozen=True)
class Node:
    """One operation of the forward pass, an operator or a collective, once for a micro-batch.

    `time` is the time of one call; a `critical` node is on the longest path.
    """

    name: str
    kind: str
    detail: str
    count: float
    time: float
    critical: bool
    waits_for: tuple[str, ...]


def compute_graph(estimation: Estimation) -> list[Node]:
    """The forward pass of one layer and both ends of the network, in an order in which it can run."""
    present, nodes = dict(_operators(estimation)) | dict(_collectives(estimation)), forward_pass(estimation)
    waits = _nearest({n: dict.fromkeys(present_before(n, nodes, present)) for n in nodes if n in present})
    critical = _longest(waits, {n: present[n][3] for n in waits})
    return [Node(name, *present[name], name in critical, before) for name, before in waits.items()]


def as_json(nodes: list[Node]) -> dict[str, Any]:
    """The graph as nodes and edges."""
    return {
        "nodes": [{k: v for k, v in asdict(n).items() if k != "waits_for"} for n in nodes],
        "edges": [{"from": before, "to": n.name} for n in nodes for before in n.waits_for],
    }


def _operators(estimation: Estimation) -> Iterator[tuple[str, tuple[str, str, float, float]]]:
    """The name of each operator of the forward pass, with its kind, shape, number of calls and seconds of a call."""
    for line in step_lines(estimation):
        if line.phase == "forward":
            yield line.name, (line.kind, _shape(line), line.count, line.time / line.count)


def _shape(line: OperatorLine) -> str:
    """The shape of an operator as text; k only for matrix products."""
    batch = f"{line.batch:.0f} x " if line.batch != 1 else ""
    depth = f" k {line.k:.0f}" if line.kind in CONTRACTIONS else ""
    return f"{batch}m {line.m:.0f} n {line.n:.0f}{depth}"


def _collectives(estimation: Estimation) -> Iterator[tuple[str, tuple[str, str, float, float]]]:
    """The name of each collective of the forward pass, with its kind, size, number of calls and seconds of a call.

    The number of calls is that of layer passes, because some records count the calls of all passes.
    """
    for c, time in collectives(estimation):
        if c.group.degree > 1 and c.count > 0:
            detail = f"{digits(c.volume / 1e6)} MB among {c.intra:g} x {c.inter:g}"
            yield node_of(c), (c.kind, detail, estimation["layer_passes"], time)


def _nearest(waits: Mapping[str, Iterable[str]]) -> dict[str, tuple[str, ...]]:
    """For each node, the nodes that it waits for, without those that another of them waits for already.

    The nodes of `waits` are in an order in which they can run.
    """
    behind: dict[str, set[str]] = {}
    for name, direct in waits.items():
        behind[name] = set().union(direct, *(behind[before] for before in direct))
    implied = {name: set().union(*(behind[before] for before in direct)) for name, direct in waits.items()}
    return {name: tuple(n for n in direct if n not in implied[name]) for name, direct in waits.items()}


def _longest(waits: Mapping[str, tuple[str, ...]], times: Mapping[str, float]) -> set[str]:
    """The nodes of the path that takes longest; the nodes of `waits` are in an order in which they can run."""
    ends: dict[str, float] = {}
    for name, direct in waits.items():
        ends[name] = times[name] + max((ends[before] for before in direct), default=0.0)
    path, name = set(), max(ends, key=ends.__getitem__)
    while name:
        path.add(name)
        name = max(waits[name], key=ends.__getitem__, default="")
    return path
