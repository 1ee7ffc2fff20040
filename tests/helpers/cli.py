"""Running the command: in a process of its own, or as a verb in this one."""

import contextlib
import io
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any
from unittest import mock

from typer.testing import CliRunner

from amped.cli.app import app, main
from tests.helpers.places import ROOT


def amped(*arguments: object, folder: Path, columns: int = 200) -> subprocess.CompletedProcess[str]:
    """Runs the whole command in a folder as if it were redirected, in this process: starting one takes a second and more."""
    out, told = (io.TextIOWrapper(io.BytesIO(), "utf-8", write_through=True) for _ in range(2))
    with (
        mock.patch.object(sys, "argv", ["amped", *map(str, arguments)]),
        mock.patch.dict(os.environ, {"COLUMNS": str(columns)}),
        contextlib.redirect_stdout(out),
        contextlib.redirect_stderr(told),
        contextlib.chdir(folder),
    ):
        code = ended()
    return subprocess.CompletedProcess(
        [*map(str, arguments)], code, out.buffer.getvalue().decode(), told.buffer.getvalue().decode()
    )


def ended() -> int:
    """Exit code of the command in this process."""
    try:
        main()
    except SystemExit as end:
        return int(end.code or 0)
    return 0


def apart(*arguments: object, folder: Path, before: str = "") -> subprocess.CompletedProcess[str]:
    """Runs the command in a process of its own; `before` is code that sets the process up."""
    code = f"{before}\nimport sys\nsys.argv[0] = 'amped'\nfrom amped.cli.app import main\nmain()"
    start = [sys.executable, "-c", code] if before else [sys.executable, "-m", "amped"]
    environment = os.environ | {
        "PYTHONPATH": str(ROOT),
        "PYTHONDONTWRITEBYTECODE": "1",
        "PYTHONWARNINGS": "error",
        "COLUMNS": "200",
    }
    return subprocess.run(
        [*start, *map(str, arguments)],
        cwd=folder,
        env=environment,
        capture_output=True,
        text=True,
        timeout=50,
        check=False,
    )


def verb(*arguments: object) -> Any:
    """Runs a verb in this process and returns its exit code; errors come through."""
    return app([str(argument) for argument in arguments], standalone_mode=False)


def printed(*arguments: object) -> str:
    """What a verb that succeeds prints, in this process."""
    words, columns = [str(argument) for argument in arguments], {"COLUMNS": "100"}
    done = CliRunner(env=columns).invoke(app, words, catch_exceptions=False)
    assert done.exit_code == 0, done.output
    return done.stdout


def refused(*arguments: object) -> tuple[int, str]:
    """Exit code of the command and what it wrote on stderr, a traceback too: the whole of it, but in this process."""
    told = io.StringIO()
    argv = mock.patch.object(sys, "argv", ["amped", *map(str, arguments)])
    with argv, contextlib.redirect_stderr(told):
        return ended(), told.getvalue()


def config_file(folder: Path, content: object) -> Path:
    path = folder / "mine.json"
    path.write_bytes(
        content
        if isinstance(content, bytes)
        else (content if isinstance(content, str) else json.dumps(content)).encode()
    )
    return path
