"""A benchmark as the user asks for it (device, suite, file): it is measured, saved on the way, and can be resumed."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from amped.base.errors import ConfigError, FileError
from amped.kernels import collective, suites
from amped.kernels.device import host_of, usable_cores
from amped.kernels.results import Result, read_result, refuse_other_machine, write_result
from amped.kernels.running import Runner, kept, new_result, record_of, timer_of
from amped.kernels.specs import COLLECTIVES, KernelSpec, key_of
from amped.kernels.timing import RECORD_TIME
from amped.kernels.torch_import import chosen_device, chosen_format, has_fp8, torch

# The seconds between two writes of the file.
SAVE_EVERY = 2.0
# Without a budget, the run of a suite ends after this many seconds.
BUDGETS = {"cpu": 50.0, "cuda": 300.0}
SUITE = {"cpu": "quick", "cuda": "full"}
# The seconds of a record in one round, and the most rounds; on a processor, a budget of the user allows more rounds.
ROUNDS = {"cpu": (0.04, 4), "cuda": (RECORD_TIME, 1)}
MOST_ROUNDS = 1000
Told = Callable[[int, int, str], None]


@dataclass(frozen=True)
class Request:
    """What to measure, where, and into which file.

    Attributes:
        suite: quick or full; by default quick on a processor and full on a GPU, whose kernels of the quick one are too
            short to tell its rates.
        kernels: gives the list of kernels for a format, in place of a suite.
        ranks: the number of processes for collectives; with 1, no collective is measured.
        resume: whether the file may exist; then only what it lacks is measured.
        command, version: are written into the file.
    """

    output: Path
    suite: str | None = None
    kernels: Callable[[str], Sequence[KernelSpec]] | None = None
    device: str | None = None
    dtype: str | None = None
    budget: float | None = None
    ranks: int = 1
    threads: int = 1
    resume: bool = False
    command: str = ""
    version: str = ""


def measured(request: Request, tell: Told = lambda done, of, what: None) -> Result:
    """The result of a request: all its kernels are measured.

    The file is written after every few kernels, so that an interrupted run leaves what it has measured.

    - `tell`: gets the number of kernels that are done, the number of all, and the name of the newest.

    Raises:
        ConfigError: for what this machine cannot do; FileError: for a file that exists, or one of another machine.
    """
    device = chosen_device(request.device)
    dtype = chosen_format(request.dtype, device)
    budget = request.budget if request.budget is not None else BUDGETS[device]
    result = _begun(request, prepared(device, request.threads, request.version, budget, request.command))
    kernels = _wanted(request, device, dtype, result)
    done = {key_of(r) for r in result["records"]}
    left = [kernel for kernel in kernels if kernel.key not in done]
    result["skipped"] = []
    save = _Saver(request.output, len(kernels), tell)
    try:
        cap, rounds = ROUNDS[device]
        rounds = MOST_ROUNDS if request.budget is not None and device == "cpu" else rounds
        done_before = [kernel for kernel in kernels if kernel.key in done]
        Runner(result, timer_of(result), save, budget, cap, rounds=rounds).run(left, done_before)
        if request.ranks > 1 and not any(r["kernel"] in COLLECTIVES for r in result["records"]):
            _add_collectives(request.ranks, device, result, save)
    finally:
        write_result(request.output, result)
    return result


def prepared(device: str, threads: int, version: str, budget: float | None = None, command: str = "") -> Result:
    """A result without records for this machine; torch is set to this number of threads.

    The commands use one thread on a CPU unless the user asks for more, because several threads wait for one another on
    a busy machine.
    """
    refuse_crowded(threads, device)
    torch.set_num_threads(threads)
    return new_result(device, threads, budget, command, version)


def refuse_crowded(threads: int, device: str) -> None:
    """Refuses several threads on a busy machine, because they wait for one another and their times mean nothing.

    Raises:
        ConfigError: if the machine is busy, or has fewer cores.
    """
    cores, load = usable_cores(), host_of(threads)["loadavg"]
    if threads < 1 or threads > cores:
        raise ConfigError(f"--threads {threads} is not possible: there are {cores} cores", "leave it out for 1")
    if device == "cpu" and threads > 1 and load is not None and load > cores / 2:
        what = (
            f"the machine is busy (load {load:.1f} on {cores} cores), and {threads} threads would wait for one another"
        )
        raise ConfigError(what, "measure with one thread, or when it is idle")


@dataclass
class _Saver:
    """Writes the file every few seconds, and reports the progress of a run.

    Attributes:
        total: the number of all kernels of the run.
        last: when the file was last written.
    """

    path: Path
    total: int
    tell: Told
    last: float = 0.0

    def __call__(self, result: Result) -> None:
        if time.monotonic() - self.last > SAVE_EVERY:
            write_result(self.path, result)
            self.last = time.monotonic()
        newest = (result["records"] or result["skipped"] or [{"kernel": ""}])[-1]["kernel"]
        self.tell(len(result["records"]) + len(result["skipped"]), self.total, newest)


def _begun(request: Request, fresh: Result) -> Result:
    """The result to add records to: `fresh`, or the one in the file if the run is resumed."""
    if not request.output.exists():
        return fresh
    if not request.resume:
        advice = "choose another -o, or add what it lacks with --resume"
        raise FileError("exists and is not overwritten", advice, str(request.output))
    resumed = read_result(request.output)
    refuse_other_machine(resumed, fresh, str(request.output))
    defaults = {"wall_s": 0.0, "skipped": [], "sentinels": []}
    return {**defaults, **resumed, "budget_s": fresh["budget_s"]}


def _wanted(request: Request, device: str, dtype: str, result: Result) -> list[KernelSpec]:
    """The kernels that the request asks for: its own list, or a suite; the full suite has products in fp8, too."""
    if request.kernels is not None:
        return list(request.kernels(dtype))
    chosen = request.suite or SUITE[device]
    kernels = suites.suite(chosen, device, dtype, result["device"].get("mem_bytes") or 0)
    return [*kernels, *suites.fp8()] if chosen == "full" and has_fp8(device) else kernels


def _add_collectives(ranks: int, device: str, result: Result, save: _Saver) -> None:
    """Measures collectives between processes, and adds their records or the reasons why there are none."""
    specs = list(suites.collectives(ranks, device))
    save.total += len(specs)
    impl = f"torch.distributed, {'nccl' if device == 'cuda' else 'gloo'}"
    for kernel, timing in collective.timings(specs, ranks, device):
        kept(result, kernel, timing if isinstance(timing, str) else record_of(kernel, impl, timing, result))
        save(result)
