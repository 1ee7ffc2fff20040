"""Which plot of an exploration is drawn, and for which swept names it needs the best candidate of each value."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from amped.base.errors import ConfigError

AUTO = "auto"
# The names that say how large the machine is, the most direct one first.
SIZES = ("number_of_accelerators", "number_of_nodes")
ALWAYS_SEARCHED = ("tensor_parallel_degree", "pipeline_parallel_degree")
FRONT = ("training_time", "memory_per_accelerator_bytes")


@dataclass(frozen=True)
class Drawing:
    """A plot to be drawn.

    Attributes:
        kind: scaling, cost, parts, heatmap, pareto or histogram.
        names: the swept names; each combination of their values needs its best candidate. Fronts and histograms have
            none.
        front: the two quantities of a front.
    """

    kind: str
    names: tuple[str, ...] = ()
    front: tuple[str, str] | None = None


def drawing(kind: str, swept: Sequence[str], along: Sequence[str], front: tuple[str, str] | None) -> Drawing:
    """The plot that the user asks for; for "auto", the one that shows what was swept.

    Args:
        kind: as in `Drawing`, or "auto".
        swept: the names that the user sweeps.
        along: the names that the plot is to be drawn along, if the user says so.
        front: the two quantities of a Pareto front, if the user names them.

    Raises:
        ConfigError: for a plot that needs another sweep.
    """
    names = list(along or swept)
    size = next((name for name in SIZES if name in names), None)
    if kind == AUTO:
        kind = "pareto" if front else "scaling" if size else "parts" if len(names) == 1 else "heatmap"
    if kind == "pareto":
        return Drawing(kind, front=front or FRONT)
    if kind == "histogram":
        return Drawing(kind)
    if kind in ("scaling", "cost"):
        if size is None:
            raise ConfigError(f"a plot of {kind} needs machines of several sizes",
                              "for example --vary number_of_accelerators=128:16384:x2 --vary system=A,B")  # fmt: skip
        return Drawing(kind, (size, *(name for name in names if name not in SIZES)))
    if kind == "parts":
        return Drawing(kind, (*(along[:1] or [size or (names or ALWAYS_SEARCHED)[0]]),))
    if along and len(along) != 2:
        raise ConfigError(f"a heat map has two sides, and --along names {len(along)}", "for example --along A,B")
    return Drawing(kind, (*dict.fromkeys((*names, *ALWAYS_SEARCHED)),)[:2])
