"""Explorations that are killed at any moment, on every engine: what was finished is kept, and nothing is left behind."""

import atexit
import contextlib
import importlib.util
import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from functools import cache
from pathlib import Path
from random import Random

from tests.campaigns.commands import folder
from tests.campaigns.records import Case, Kind, Seen
from tests.helpers.executors import AS_ROOT, MPIRUN, answer, arguments, listens, mpi_runs
from tests.helpers.places import ROOT

# A shell shows 130 for -2, too: a group of processes may get the signal while amped, which has said its word, already leaves.
SIGNALS = {"KILL": (-9, 137), "TERM": (143,), "INT": (130, -2)}
ENGINES = {
    "serial": ["--executor", "serial"],
    "processes": ["--workers", "2"],
    "dask": ["--executor", "dask", "--scheduler"],
    "mpi": ["--executor", "mpi"],
}
# What interrupted processes may take to end, on a loaded machine.
PATIENCE = 60.0
# Seconds that each part waits, so that a kill meets a search that runs.
PAUSES = (0.0, 0.01, 0.05)
CLUSTER = """
import sys
from distributed import LocalCluster
if __name__ == "__main__":
    with LocalCluster(n_workers=1, threads_per_worker=1, dashboard_address=None) as cluster:
        print(cluster.scheduler_address, flush=True)
        sys.stdin.read()
"""


@cache
def engines() -> tuple[str, ...]:
    """The engines that are installed."""
    has = {"dask": bool(importlib.util.find_spec("distributed")), "mpi": mpi_runs()}
    return tuple(name for name in ENGINES if has.get(name, True))


@cache
def scheduler() -> str:
    """The address of a scheduler with one worker, which lasts as long as this process."""
    script = Path(tempfile.gettempdir()) / f"campaign-cluster-{os.getpid()}.py"
    script.write_text(CLUSTER, "utf-8")
    cluster = subprocess.Popen([sys.executable, str(script)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
                               stderr=subprocess.DEVNULL, env=_environment(script.parent, 0.0))  # fmt: skip
    assert cluster.stdin is not None
    assert cluster.stdout is not None
    atexit.register(cluster.wait)
    atexit.register(cluster.stdin.close)
    address = next((line.strip() for line in cluster.stdout if line.startswith("tcp://")), "")
    script.unlink()
    if not address:
        raise RuntimeError("no dask scheduler can be started here")
    return address


def _environment(where: Path, pause: float) -> dict[str, str]:
    return os.environ | AS_ROOT | {"PYTHONPATH": str(ROOT), "PAUSE": str(pause), "TMPDIR": str(where)}


def started(engine: str, where: Path, pause: float, *more: str) -> subprocess.Popen[str]:
    """A search in a session of its own, whose temporary files lie in the folder."""
    (where / "temporary").mkdir(exist_ok=True)
    mpi = [MPIRUN, "-np", "2"] if engine == "mpi" else []
    address = [scheduler()] if engine == "dask" else []
    words = [*mpi, sys.executable, "-m", "amped", *arguments(where), *ENGINES[engine], *address, *more]
    return subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, cwd=where, start_new_session=True,
                            env=_environment(where / "temporary", pause), preexec_fn=listens)  # fmt: skip


def of_session(session: int) -> list[int]:
    """The processes of a session that run; mpirun itself, which may wait for ever for ranks that have ended, is not amped's."""
    found = []
    for status in Path("/proc").glob("[0-9]*/stat"):
        try:
            name, _, rest = status.read_text().rpartition(")")
        except OSError:  # it has just ended
            continue
        state, _, _, own = rest.split()[:4]
        if int(own) == session and state != "Z" and not name.endswith(("(mpirun", "(mpiexec", "(mpiexec.hydra")):
            found.append(int(status.parent.name))
    return found


def answers_for_it(process: int) -> bool:
    """Whether an interrupt is amped's: from then on it catches SIGTERM, too, which Python never does by itself."""
    with contextlib.suppress(OSError):
        told = dict(line.split(":", 1) for line in Path(f"/proc/{process}/status").read_text().splitlines())
        return bool(int(told.get("SigCgt", "0"), 16) >> (signal.SIGTERM - 1) & 1)
    return False  # it has ended by itself


def draw_kill(random: Random) -> Case:
    engine = random.choice(engines())
    output = random.random() < 0.25 and engine in ("serial", "processes")
    return {"engine": engine, "signal": random.choice([*SIGNALS]), "after": round(random.uniform(0, 1.3) ** 2 + 0.3, 3), "lines": random.choice((0, 0, 1, 5)),
            "pause": random.choice(PAUSES), "output": output}  # fmt: skip


@cache
def number_of_parts() -> int:
    """The number of parts of the search, which findings have a line each for, after their first line."""
    with folder() as where:
        kept = where / "kept.jsonl"
        started("serial", where, 0.0, "--resume", str(kept), "--format", "json").communicate(timeout=PATIENCE * 5)
        return kept.read_bytes().count(b"\n") - 1


@cache
def wanted() -> dict[str, object]:
    """The answer of a search that nobody interrupts."""
    with folder() as where:
        out, told = started("serial", where, 0.0).communicate(timeout=PATIENCE * 5)
        if not out:
            raise RuntimeError(told)
        return answer(out)


def _moment(case: Case, run: subprocess.Popen[str], kept: Path) -> None:
    """Waits for some lines of findings, or some time."""
    end = time.monotonic() + PATIENCE
    while case.get("lines") and run.poll() is None and time.monotonic() < end:
        if kept.exists() and kept.read_bytes().count(b"\n") > case["lines"]:
            time.sleep(case.get("after", 0.0) / 30)
            return
        time.sleep(0.01)
    time.sleep(case.get("after", 0.0))


def run_kill(case: Case) -> Seen:
    engine, how = case.get("engine", "serial"), case.get("signal", "KILL")
    with folder() as where:
        kept = where / "kept.jsonl"
        more = (
            ["--keep-all", "--output", "all.csv", "--format", "csv"]
            if case.get("output")
            else ["--resume", str(kept), "--format", "json"]
        )
        run = started(engine, where, case.get("pause", 0.0), *more)
        _moment(case, run, kept)
        amped = answers_for_it(run.pid)
        if engine == "mpi" or how != "INT":
            run.send_signal(getattr(signal, f"SIG{how}"))
        else:
            with contextlib.suppress(ProcessLookupError):  # it has ended by itself
                os.killpg(run.pid, signal.SIGINT)  # a terminal interrupts all
        wrong = _ended(run, engine, how, where if amped else None)
        return Seen(wrong or _resumed(case, where, more, how))


def _ended(run: subprocess.Popen[str], engine: str, how: str, where: Path | None) -> str:
    """What is wrong with the end of a search that was killed; `where` is its folder if amped answered for interrupts then."""
    end = time.monotonic() + PATIENCE
    while (left := of_session(run.pid)) and time.monotonic() < end:
        time.sleep(0.05)
    for process in left:
        with contextlib.suppress(ProcessLookupError):
            os.kill(process, signal.SIGKILL)
    if engine == "mpi" and how != "KILL" and run.poll() is None:
        run.kill()
    _, told = run.communicate()
    if left:
        return f"processes go on after {how}: {len(left)} of engine {engine}"
    early = -signal.Signals[f"SIG{how}"].value
    pythons = where is None or _is_over(where)  # Python itself was interrupted, and may tell where it was
    if "Traceback" in told and how != "KILL" and engine != "mpi" and not (pythons or "Exception ignored in" in told):
        return f"a traceback after {how}: {told[-500:]}"
    allowed = (0, *SIGNALS[how], *((early,) if pythons else ()))
    if engine != "mpi" and run.returncode not in allowed:
        return f"exit code {run.returncode} after {how}: {told[-500:]}"
    return ""


def _is_over(where: Path) -> bool:
    """Whether a search had found everything, so that amped only had to show it."""
    kept = where / "kept.jsonl"
    return (where / "all.csv").exists() or (kept.exists() and kept.read_bytes().count(b"\n") > number_of_parts())


def _resumed(case: Case, where: Path, more: list[str], how: str) -> str:
    """What is wrong with a search that goes on."""
    if how != "KILL" and (left := _leftovers(where)):
        return f"left behind after {how}: {left}"
    if case.get("output") and (where / "all.csv").exists():
        (where / "all.csv").unlink()
    run = started(case.get("engine", "serial"), where, 0.0, *more)
    out, told = run.communicate(timeout=PATIENCE * 5)
    if run.returncode:
        return f"does not go on after {how}: {told[-500:]}"
    if not case.get("output") and answer(out) != wanted():
        return f"another answer after {how}: {json.dumps(answer(out))[:300]}"
    left = _leftovers(where)
    return f"left behind by the next run after {how}: {left}" if left else ""


def _leftovers(where: Path) -> list[str]:
    """What is in a folder of a search and should not be."""
    own = {"small.json", "parts.py", "kept.jsonl", "all.csv", "temporary", "__pycache__"}
    found = [path.name for path in where.iterdir() if path.name not in own]
    return found + [path.name for path in (where / "temporary").iterdir() if path.name.startswith(".amped")]


KILLS = Kind("kills", draw_kill, run_kill, hourly=130, slice=1, seconds=60.0)
