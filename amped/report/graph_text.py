"""The compute graph as text and as a file for Graphviz."""

from __future__ import annotations

from amped.estimation.graph import Node
from amped.report import human
from amped.theory.nouns.records import CONTRACTIONS


def as_dot(nodes: list[Node]) -> str:
    """The graph as a file for Graphviz."""
    lines = [
        f'  "{node.name}" [shape={_shape(node)}{", penwidth=2, color=red" if node.critical else ""}, '
        f'label="{node.name}\\n{node.kind} {node.detail}\\n{node.count:g} calls of {human.value(node.time, "s")}"];'
        for node in nodes
    ]
    critical = {node.name for node in nodes if node.critical}
    edges = [
        f'  "{predecessor}" -> "{node.name}"{" [penwidth=2, color=red]" if {predecessor, node.name} <= critical else ""};'
        for node in nodes
        for predecessor in node.waits_for
    ]
    return "\n".join(["digraph layer {", "  rankdir=TB;", *lines, *edges, "}", ""])


def as_text(nodes: list[Node]) -> str:
    """The graph as text: a line for each operation with its predecessors, and * if it is on the longest path."""
    width, detail = max(len(node.name) for node in nodes), max(len(node.detail) for node in nodes)
    lines = [
        f"{'*' if node.critical else ' '} {node.name:{width}}  {node.kind:19}  {node.detail:{detail}}  {node.count:>8g} calls of "
        f"{human.value(node.time, 's'):>10}  after {', '.join(node.waits_for) or 'input'}"
        for node in nodes
    ]
    return "\n".join([*lines, ""])


def _shape(node: Node) -> str:
    """The shape of an operation in Graphviz: a box for a contraction, else an ellipse."""
    return "box" if node.kind in CONTRACTIONS else "ellipse"
