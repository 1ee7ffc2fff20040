"""`amped mcp`: the tools of amped for agents."""

from __future__ import annotations

import os
import sys

from amped.base.errors import ConfigError
from amped.cli import options


@options.with_options
def mcp(longest: float = 60.0) -> None:
    """Serve amped's tools to an agent: the Model Context Protocol over standard input and output.

    The tools are estimate, explore, why, recommend, support, import, export and list. No file is read but amped's own
    tables, and nothing is run; an agent sends the text of a file. It needs the extra: pip install 'amped[mcp]'.

    Example: amped mcp --help

    Options:
        --longest SECONDS: What an answer may take.
    """
    from amped.base.extras import from_extra

    from_extra("mcp.server.mcpserver", "mcp", "`amped mcp`")
    from amped.agents.server import Worker, server

    if not _is_open():
        raise ConfigError("`amped mcp` reads questions from standard input, which cannot be read",
                          "a client starts it: docs/agents.md says how")  # fmt: skip
    server(Worker(longest)).run("stdio")


def _is_open() -> bool:
    """Whether standard input can be read; `nohup`, for one, gives a program one that cannot."""
    try:
        os.read(sys.stdin.fileno(), 0)
    except (AttributeError, OSError, ValueError):  # none at all, one that can only be written, one that was closed
        return False
    return True
