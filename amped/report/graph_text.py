"""The compute graph for reading and for Graphviz."""

from __future__ import annotations

from amped.graph import Node


def as_dot(nodes: list[Node]) -> str:
    """The graph for Graphviz."""
    shapes = {"gemm": "box"}
    lines = [
        f'  "{n.name}" [shape={shapes.get(n.kind, "ellipse")}, label="{n.name}\\n{n.kind} {n.detail}\\n{n.count:g} calls"];'
        for n in nodes
    ]
    edges = [f'  "{before}" -> "{n.name}";' for n in nodes for before in n.waits_for]
    return "\n".join(["digraph layer {", "  rankdir=TB;", *lines, *edges, "}", ""])


def as_text(nodes: list[Node]) -> str:
    """The graph for reading: a line for each operation, and what it waits for."""
    width = max(len(n.name) for n in nodes)
    lines = [
        f"{n.name:{width}}  {n.kind:14}  {n.detail:34}  {n.count:>8g} calls  after {', '.join(n.waits_for) or 'input'}"
        for n in nodes
    ]
    return "\n".join([*lines, ""])
