"""The compute graph as text and as a file for Graphviz."""

from __future__ import annotations

from amped.estimation.graph import Node
from amped.report import human
from amped.theory.nouns.records import CONTRACTIONS


def as_dot(nodes: list[Node]) -> str:
    """The graph as a file for Graphviz."""
    lines = [
        f'  "{n.name}" [shape={_shape(n)}{", penwidth=2, color=red" if n.critical else ""}, '
        f'label="{n.name}\\n{n.kind} {n.detail}\\n{n.count:g} calls of {human.value(n.time, "s")}"];'
        for n in nodes
    ]
    critical = {n.name for n in nodes if n.critical}
    edges = [
        f'  "{before}" -> "{n.name}"{" [penwidth=2, color=red]" if {before, n.name} <= critical else ""};'
        for n in nodes
        for before in n.waits_for
    ]
    return "\n".join(["digraph layer {", "  rankdir=TB;", *lines, *edges, "}", ""])


def as_text(nodes: list[Node]) -> str:
    """The graph as text: a line for each operation with what it waits for, and * if it is on the longest path."""
    width, detail = max(len(n.name) for n in nodes), max(len(n.detail) for n in nodes)
    lines = [
        f"{'*' if n.critical else ' '} {n.name:{width}}  {n.kind:19}  {n.detail:{detail}}  {n.count:>8g} calls of "
        f"{human.value(n.time, 's'):>10}  after {', '.join(n.waits_for) or 'input'}"
        for n in nodes
    ]
    return "\n".join([*lines, ""])


def _shape(node: Node) -> str:
    return "box" if node.kind in CONTRACTIONS else "ellipse"
