"""The process that answers agents: a question a line, an answer a line. It reads no file of the user, and starts nothing.

`python -m amped.agents.worker` reads {"tool": …, "arguments": …} from standard input, and writes {"answer": …} or {"problem": …}.
"""

from __future__ import annotations

import json
import os
import sys
import tempfile
from collections.abc import Iterable
from pathlib import Path
from typing import Any

# The most memory of the process, in bytes.
MOST_MEMORY = 8 * 2**30
# What a question never needs: other processes, networks, files that are removed or renamed outside the folder of its own.
REFUSED = (
    "subprocess.Popen",
    "os.system",
    "os.exec",
    "os.posix_spawn",
    "os.fork",
    "socket.connect",
    "socket.bind",
    "urllib.Request",
)


def serve() -> None:
    """Answers the questions of standard input until it ends."""
    answers, sys.stdout = sys.stdout, sys.stderr
    from amped.agents.tools import answer
    from amped.base.errors import AmpedError, WrongResultError
    from amped.library.words import in_python

    limit_memory()
    with tempfile.TemporaryDirectory() as folder:
        tempfile.tempdir = folder
        sys.addaudithook(guard([folder]))
        for line in sys.stdin:
            try:
                asked: dict[str, Any] = json.loads(line)
                told: dict[str, Any] = {"answer": answer(asked["tool"], asked["arguments"])}
            except AmpedError as error:
                told = {"problem": in_python(str(error))}
            except (
                WrongResultError,
                TypeError,
                ValueError,
                KeyError,
                ArithmeticError,
                OSError,
                MemoryError,
                RecursionError,
            ) as error:
                told = {"problem": f"this question is not answered: {type(error).__name__}: {error}"[:500]}
            answers.write(json.dumps(told) + "\n")
            answers.flush()


def limit_memory() -> None:
    """Bounds the memory of the process, where the system can."""
    try:
        import resource
    except ImportError:  # Windows
        return
    resource.setrlimit(resource.RLIMIT_AS, (MOST_MEMORY, MOST_MEMORY))


def guard(folders: Iterable[str]) -> Any:
    """A hook that refuses to open files outside of Python, of amped, of ./lookup_tables and of `folders`."""
    here = Path(__file__).resolve().parent.parent
    own = [here, *(here.parent / name for name in ("configs", "lookup_tables", "kernels"))]
    roots = [sys.prefix, sys.base_prefix, sys.exec_prefix, *own, Path.cwd() / "lookup_tables", *folders]
    allowed = tuple(os.path.realpath(str(root)) + os.sep for root in roots)
    source = os.path.realpath(here.parent)

    def refuse(event: str, arguments: tuple[Any, ...]) -> None:
        """Raises PermissionError for what a question must not do."""
        if event in REFUSED:
            raise PermissionError(f"a question does not need {event}")
        if event in ("open", "os.listdir", "os.scandir") and isinstance(arguments[0], str | bytes | os.PathLike):
            name: Any = arguments[0]
            path = os.path.realpath(os.fsdecode(name))
            is_own = f"{path}{os.sep}".startswith(allowed) or (event != "open" and path == source)
            if not is_own:
                raise PermissionError(f"no file is read here: {Path(path).name}; send its text to the tool import")

    return refuse


if __name__ == "__main__":
    serve()
