"""The operators of one layer as a table: work, traffic, what bounds each, its time, and how well it uses the machine."""

from __future__ import annotations

from collections.abc import Iterator

from rich.console import JustifyMethod, RenderableType, group
from rich.table import Table
from rich.text import Text

from amped.estimation.breakdown import OperatorLine, layer_lines
from amped.estimation.estimation import Estimation
from amped.report.summary import heading

PHASES = {"forward": "forward", "input_gradient": "gradient", "weight_gradient": "weights"}
NUMBERS = ("GFLOP", "MB", "FLOP/B", "time us", "share", "% peak", "MUE")
MEANINGS = "% peak: flops as a share of the matrix peak. MUE: compulsory bytes as a share of the memory's peak."


@group()
def layer_table(e: Estimation) -> Iterator[RenderableType]:
    """One layer, one micro-batch, one accelerator: each operator of the forward pass, and its gradients."""
    yield from heading(e)
    lines = layer_lines(e)
    table = Table(box=None, padding=(0, 1), pad_edge=False, show_footer=True)
    footers = {"operator": "one micro-batch", "time us": f"{sum(line.time for line in lines) * 1e6:,.1f}",
               "GFLOP": f"{sum(line.flops for line in lines) / 1e9:,.1f}",
               "MB": f"{sum(line.bytes for line in lines) / 1e6:,.0f}"}  # fmt: skip
    for name in ("operator", "pass", *NUMBERS[:3], "bound", *NUMBERS[3:]):
        justify: JustifyMethod = "right" if name in NUMBERS else "left"
        table.add_column(name, footers.get(name, ""), justify=justify, no_wrap=True, footer_style="bold")
    for line in lines:
        table.add_row(*_cells(line))
    yield table
    yield Text(f"\n{MEANINGS}", style="dim")


def _cells(line: OperatorLine) -> Iterator[str]:
    calls = f" x {line.count:.3g}" if line.count != 1 else ""
    yield f"{line.name}{calls}"
    yield PHASES[line.phase]
    yield f"{line.flops / 1e9:,.2f}"
    yield f"{line.bytes / 1e6:,.1f}"
    yield f"{line.intensity:,.1f}"
    yield line.bound
    yield f"{line.time * 1e6:,.1f}"
    yield f"{line.share * 100:.1f}"
    yield f"{line.peak_fraction * 100:.1f}"
    yield f"{line.memory_use_efficiency * 100:.1f}"
