"""Running the command: in a process of its own, or as a verb in this one."""

import json
import os
import subprocess
import sys
from pathlib import Path

from amped.cli.app import app

ROOT = Path(__file__).resolve().parent.parent


def amped(*arguments, folder, before=""):
    """Runs the command in a folder; `before` is code that sets the process up."""
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


def verb(*arguments):
    """Runs a verb in this process and returns its exit code; errors come through."""
    return app([str(argument) for argument in arguments], standalone_mode=False)


def config_file(folder, content):
    path = folder / "mine.json"
    path.write_bytes(
        content
        if isinstance(content, bytes)
        else (content if isinstance(content, str) else json.dumps(content)).encode()
    )
    return path
