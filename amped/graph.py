"""The compute graph of one layer and the head: products and collectives, and what waits for what."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict, dataclass
from typing import Any

from amped.breakdown import gemm_lines
from amped.errors import WiringError
from amped.estimation import Estimation

# Which nodes a node waits for, by name; a node that the model does not have hands on what it waits for.
WAITS_FOR = {
    "query_key_value": ("input",),
    "query_down": ("input",),
    "query_up": ("query_down",),
    "key_value_down": ("input",),
    "key_value_up": ("key_value_down",),
    "keys_and_values": ("query_key_value", "key_value_up"),
    "attention_scores": ("query_key_value", "query_up", "key_value_up", "keys_and_values"),
    "attention_values": ("attention_scores",),
    "attention_output": ("attention_values",),
    "attention_output all_reduce": ("attention_output",),
    "feedforward_up": ("attention_output all_reduce",),
    "feedforward_down": ("feedforward_up",),
    "router": ("attention_output all_reduce",),
    "expert_dispatch": ("router",),
    "experts_up": ("expert_dispatch",),
    "experts_down": ("experts_up",),
    "expert_combine": ("experts_down",),
    "shared_experts_up": ("attention_output all_reduce",),
    "shared_experts_down": ("shared_experts_up",),
    "feedforward_down all_reduce": ("feedforward_down", "expert_combine", "shared_experts_down"),
    "stage_boundary": ("feedforward_down all_reduce",),
    "head": ("stage_boundary",),
}
COLLECTIVES = ("context_collectives", "tensor_collectives", "expert_collectives", "pipeline_collectives")


@dataclass(frozen=True)
class Node:
    """One operation of the forward pass: a product ("gemm") or a communication."""

    name: str
    kind: str
    detail: str
    count: float
    waits_for: tuple[str, ...]


def compute_graph(estimation: Estimation) -> list[Node]:
    """The forward pass of one layer and the head, in an order in which it can run."""
    present = dict(_products(estimation)) | dict(_collectives(estimation))
    placeless = present.keys() - WAITS_FOR.keys()
    if placeless:
        raise WiringError(f"the graph has no place for {', '.join(sorted(placeless))}", "name it in graph.WAITS_FOR")
    return [
        Node(name, *present[name], tuple(dict.fromkeys(_before(name, present))))
        for name in WAITS_FOR
        if name in present
    ]


def as_json(nodes: list[Node]) -> dict[str, Any]:
    """The graph as nodes and edges."""
    return {
        "nodes": [{k: v for k, v in asdict(n).items() if k != "waits_for"} for n in nodes],
        "edges": [{"from": before, "to": n.name} for n in nodes for before in n.waits_for],
    }


def _products(estimation: Estimation) -> Iterator[tuple[str, tuple[str, str, float]]]:
    for line in gemm_lines(estimation):
        if line.phase == "forward":
            batch = f"{line.batch:g} x " if line.batch != 1 else ""
            yield line.name, ("gemm", f"{batch}m {line.m:g} n {line.n:g} k {line.k:g}", line.count)


def _collectives(estimation: Estimation) -> Iterator[tuple[str, tuple[str, str, float]]]:
    """The collectives of the forward pass; records count those of all passes."""
    passes = {"pipeline_collectives": estimation["forward_and_backward_passes"]}
    for name in COLLECTIVES:
        for record in estimation.results.records(name):
            if record.intra * record.inter > 1 and record.count > 0 and not record.name.endswith("gradients"):
                calls = record.count / passes.get(name, estimation["communicating_passes"])
                title = f"{record.name} all_reduce" if record.kind == "all_reduce" else record.name
                detail = f"{record.volume / 1e6:.4g} MB among {record.intra:g} x {record.inter:g}"
                yield title, (record.kind, detail, calls)


def _before(name: str, present: dict[str, Any]) -> Iterator[str]:
    """What a node waits for; where the model has none of it, what that waits for."""
    named = WAITS_FOR.get(name, ())
    found = [before for before in named if before in present]
    yield from found
    if not found:
        for before in named:
            yield from _before(before, present)
