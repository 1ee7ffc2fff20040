"""Anything that rich can render, as HTML for notebooks."""

from __future__ import annotations

import io

from rich.console import Console, RenderableType

WIDTH = 100


def as_html(renderable: RenderableType) -> str:
    """The renderable as a block of HTML."""
    console = Console(record=True, file=io.StringIO(), width=WIDTH, force_terminal=True)
    console.print(renderable)
    return console.export_html(inline_styles=True, code_format='<pre style="line-height:1.25">{code}</pre>')
