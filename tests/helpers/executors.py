"""A small space in many small parts, in this process and in any other, and workers that are slow or die on demand."""

import importlib.util
import json
import os
import shutil
import signal
import subprocess
import sys
from functools import cache
from pathlib import Path

import pytest

import amped.exploration.search as search_module
from amped.configuring.scenario import read_scenario
from amped.exploration.request import Options, Request
from amped.exploration.results import Finding
from amped.exploration.running import ALONE, found_in
from amped.exploration.search import Search
from tests.helpers.explore import SMALL

# Formulas are a file that every process runs: so the parts are small in each, wherever they are evaluated.
FORMULAS = '''
"""Small parts. LOG names a file for the numbers of parts evaluated, PAUSE seconds for each; part 4 kills a worker once,
leaving the file FLAG."""
import os, signal, time
from pathlib import Path
import amped.exploration.search as search
from amped.theory.language.quantity import MAPPING, parameter

search.PART_CELLS = search.BLOCK_CELLS = 16
own = search.Search.evaluate

def evaluate(self, part, *keep):
    flag = os.environ.get("FLAG")
    if part.number == 4 and flag and not Path(flag).exists():
        Path(flag).touch()
        os.kill(os.getpid(), signal.SIGKILL)
    time.sleep(float(os.environ.get("PAUSE", 0)))
    found = own(self, part, *keep)
    if "LOG" in os.environ:
        with open(os.environ["LOG"], "a") as log:
            log.write(f"{part.number}\\n")
    return found

search.Search.evaluate = evaluate

@parameter("s", category=MAPPING)
def nobody_asks_for_this():
    """Time that is not used. Source: definition."""
    return 1.0
'''
TOP = 5
MPIRUN = next((str(p) for p in (Path(sys.executable).parent / "mpirun", shutil.which("mpirun")) if p and Path(p).exists()), "")  # fmt: skip
# What lets Open MPI run for root.
AS_ROOT = {"OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1"}


@cache
def mpi_runs() -> bool:
    """Whether mpirun is here, and mpi4py finds a library of MPI; another process tries, as the library starts at once."""
    if not (MPIRUN and importlib.util.find_spec("mpi4py")):
        return False
    load = [sys.executable, "-c", "import mpi4py.MPI"]
    return subprocess.run(load, capture_output=True, check=False, timeout=50).returncode == 0


def small_parts(patch: pytest.MonkeyPatch) -> None:
    """What the formulas do to this process, until the test is over."""
    patch.setattr(search_module, "PART_CELLS", 16)
    patch.setattr(search_module, "BLOCK_CELLS", 16)
    patch.setattr(Search, "evaluate", Search.evaluate)


def files(folder: Path) -> tuple[Path, Path]:
    """A config and formulas."""
    config, formulas = folder / "small.json", folder / "parts.py"
    config.write_text(json.dumps(SMALL), "utf-8")
    formulas.write_text(FORMULAS, "utf-8")
    return config, formulas


def search(folder: Path, top: int = TOP, **overrides: object) -> Search:
    """What the command below asks for."""
    config, formulas = files(folder)
    scenario = read_scenario(config, overrides, formulas=formulas)
    return Search(Request(scenario.question, {}, Options(top, "degrees", pareto=("step_time", "memory"))))


def arguments(folder: Path) -> list[str]:
    """The same on the command line."""
    config, formulas = files(folder)
    asked = [
        "--config",
        config,
        "--formulas",
        formulas,
        "--space",
        "degrees",
        "--top",
        TOP,
        "--pareto",
        "step_time,memory",
    ]
    return ["explore", *map(str, asked), "--format", "json"]


def started(folder: Path, *more: object, stderr: int = subprocess.PIPE, **variables: object) -> subprocess.Popen[str]:
    """The command in a process of its own, which goes on while the test does."""
    line = [sys.executable, "-m", "amped", *arguments(folder), *map(str, more)]
    environment = os.environ | {name: str(value) for name, value in variables.items()}
    return subprocess.Popen(line, stdout=subprocess.PIPE, stderr=stderr, text=True, cwd=folder, env=environment,
                            preexec_fn=listens)  # fmt: skip


def listens() -> None:
    """Ctrl-C ends it, also where the tests run in the background, which do not listen."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)


@cache
def alone(folder: Path) -> Finding:
    """What this process finds, one part after the other."""
    return found_in(search(folder), ALONE)


def exactly(found: Finding) -> str:
    """Every bit of what was found."""
    return json.dumps(found.to_dict())


def answer(text: str) -> dict[str, object]:
    """What a command printed, but for the time it took."""
    told: dict[str, object] = json.loads(text)
    return {name: value for name, value in told.items() if name != "elapsed_time"}
