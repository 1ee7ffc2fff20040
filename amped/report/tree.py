"""The tree of formulas behind a value, for a terminal."""

from __future__ import annotations

from collections.abc import Mapping

from rich.text import Text
from rich.tree import Tree

from amped.estimation.explanation import Explanation
from amped.report import human

_STYLE = {
    "given": "green",
    "table row": "cyan",
    "calculated": "",
    "default": "yellow",
    "records": "dim",
    "found": "yellow",
}


def explanation_tree(explanation: Explanation, depth: int) -> Tree:
    """The tree of a value, `depth` levels deep."""
    tree = Tree(_node(explanation, full=True), guide_style="dim")
    _grow(tree, explanation, depth)
    return tree


def _grow(tree: Tree, explanation: Explanation, depth: int) -> None:
    """Adds the parts of a value to its node, `depth` levels deep; below that, only how many values follow."""
    if depth <= 0 and explanation.parts:
        tree.add(Text(f"… {sum(1 for _ in explanation.walk()) - 1} more below (--depth)", style="dim"))
        return
    for part in explanation.parts:
        _grow(tree.add(_node(part, full=False)), part, depth - 1)
    for chapter, number in explanation.inside.items():
        tree.add(Text(f"{number} more inside {chapter}: --inside", style="dim"))


def _record_line(record: Mapping[str, float | str]) -> str:
    """A record on one line: its name and its fields."""
    fields = [
        f"{field} {human.digits(value, 6)}" if isinstance(value, float) else f"{field} {value}"
        for field, value in record.items()
        if field != "name"
    ]
    return f"  {record['name']}: {', '.join(fields)}"


def _node(e: Explanation, full: bool) -> Text:
    """The text of a node: name, value and origin, then the place of a given value, or the formula of a calculated one.

    With `full`, the text also says where the formula is defined.
    """
    text = Text.assemble(
        (e.name, "bold"), " = ", human.value(e.value, e.unit), "  ", (f"[{e.origin}]", _STYLE[e.origin])
    )
    if e.repeated:
        return text.append("  explained once in this tree", style="dim")
    if e.origin in ("given", "table row", "found"):
        return text.append(f"  {e.where}", style="dim")
    if e.file:
        text.append(f"  {e.file}", style="dim")
    reasons = {"alternative chosen because": e.because, "Source": e.source, "Differs": e.differs}
    where = f"{e.where} in {e.unit}" if e.unit else e.where
    lines = [e.summary, *(f"  {line}" for line in e.equation.splitlines()), *map(_record_line, e.rows)] + (
        [where] if full and where else []
    )
    for line in (*lines, *(f"{what}: {sentence}" for what, sentence in reasons.items() if sentence)):
        text.append(f"\n{line}", style="dim")
    return text
