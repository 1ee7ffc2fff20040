"""The compute graph of the forward pass of one layer between the two ends: operators and collectives, and what waits for what."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict, dataclass
from typing import Any

from amped.base.errors import WiringError
from amped.estimation.breakdown import CONTRACTIONS, WAITS_FOR, OperatorLine, step_lines
from amped.estimation.estimation import Estimation
from amped.theory.records import Collective

COLLECTIVES = {
    "context_collectives": "context_durations", "tensor_collectives": "tensor_durations",
    "grid_column_collectives": "grid_column_durations", "expert_collectives": "expert_durations",
    "expert_tensor_collectives": "expert_tensor_durations", "pipeline_collectives": "pipeline_durations",
}  # fmt: skip


@dataclass(frozen=True)
class Node:
    """One operation of the forward pass, by kind of operator or of collective, once for a micro-batch.

    `time` is that of one call; `critical` nodes are those on the longest path.
    """

    name: str
    kind: str
    detail: str
    count: float
    time: float
    critical: bool
    waits_for: tuple[str, ...]


def compute_graph(estimation: Estimation) -> list[Node]:
    """The forward pass of one layer and both ends, in an order in which it can run."""
    present = dict(_operators(estimation)) | dict(_collectives(estimation))
    casts = {name for name in present if name.endswith("_casts")}
    placeless = present.keys() - WAITS_FOR.keys() - casts
    if placeless:
        raise WiringError(
            f"the graph has no place for {', '.join(sorted(placeless))}",
            "name it in WAITS_FOR of amped/estimation/breakdown.py",
        )
    waits = {n: tuple(dict.fromkeys(_before(n, present))) for n in WAITS_FOR if n in present}
    waits = {f"{n}_casts": w for n, w in waits.items() if f"{n}_casts" in casts} | {
        n: (f"{n}_casts",) if f"{n}_casts" in casts else w for n, w in waits.items()
    }
    waits = {n: _nearest(w, waits) for n, w in waits.items()}
    critical = _longest(waits, {n: present[n][3] for n in waits})
    ordered = [n for name in WAITS_FOR for n in (f"{name}_casts", name) if n in waits]
    return [Node(name, *present[name], name in critical, waits[name]) for name in ordered]


def as_json(nodes: list[Node]) -> dict[str, Any]:
    """The graph as nodes and edges."""
    return {
        "nodes": [{k: v for k, v in asdict(n).items() if k != "waits_for"} for n in nodes],
        "edges": [{"from": before, "to": n.name} for n in nodes for before in n.waits_for],
    }


def _operators(estimation: Estimation) -> Iterator[tuple[str, tuple[str, str, float, float]]]:
    for line in step_lines(estimation):
        if line.phase == "forward":
            yield line.name, (line.kind, _shape(line), line.count, line.time / line.count)


def _shape(line: OperatorLine) -> str:
    batch = f"{line.batch:g} x " if line.batch != 1 else ""
    depth = f" k {line.k:g}" if line.kind in CONTRACTIONS else ""
    return f"{batch}m {line.m:g} n {line.n:g}{depth}"


def _collectives(estimation: Estimation) -> Iterator[tuple[str, tuple[str, str, float, float]]]:
    """The collectives of the forward pass; some records count those of all passes."""
    known = estimation.results.cells
    calls = estimation["layer_passes"]
    for name, timed in ((name, timed) for name, timed in COLLECTIVES.items() if name in known):
        records: tuple[Collective, ...] = estimation.results.records(name)
        times = [d.time for d in estimation.results.records(timed)] if timed in known else [0.0] * len(records)
        for record, time in zip(records, times, strict=False):
            if record.group.degree > 1 and record.count > 0 and not record.name.endswith("gradients"):
                detail = f"{record.volume / 1e6:.4g} MB among {record.intra:g} x {record.inter:g}"
                yield f"{record.name} {record.kind}", (record.kind, detail, calls, time)


def _before(name: str, present: dict[str, Any]) -> Iterator[str]:
    """What a node waits for; where the model has none of it, what that waits for."""
    for before in WAITS_FOR.get(name, ()):
        if before in present:
            yield before
        else:
            yield from _before(before, present)


def _nearest(direct: tuple[str, ...], waits: dict[str, tuple[str, ...]]) -> tuple[str, ...]:
    """Of the nodes waited for, those that no other of them waits for already."""

    def behind(name: str) -> set[str]:
        return set().union(*({before} | behind(before) for before in waits[name]))

    implied = set().union(*(behind(name) for name in direct))
    return tuple(name for name in direct if name not in implied)


def _longest(waits: dict[str, tuple[str, ...]], times: dict[str, float]) -> set[str]:
    """The nodes of the path that takes longest."""
    ends: dict[str, float] = {}

    def end(name: str) -> float:
        if name not in ends:
            ends[name] = times[name] + max((end(before) for before in waits[name]), default=0.0)
        return ends[name]

    path, name = set(), max(waits, key=end)
    while name:
        path.add(name)
        name = max(waits[name], key=end, default="")
    return path
