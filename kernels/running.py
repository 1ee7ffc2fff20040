"""Runs a suite: kernel by kernel, within a budget; keeps a record of each, or why it was skipped."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from amped.kernels.callables import SCALE, SEED, Made, built
from amped.kernels.device import device_of, host_of, software_of
from amped.kernels.refusals import first_line, is_out_of_memory
from amped.kernels.results import SCHEMA, Result, usual_rate
from amped.kernels.specs import KernelSpec, key_of, sentinel
from amped.kernels.timers import QUIET, Timer, timer_for
from amped.kernels.timing import RECORD_TIME, STATISTIC, Clock, Timing
from amped.kernels.torch_import import torch

# How many records are measured between two looks at the sentinel; and the drift above which a record counts as slowed.
SENTINEL_EVERY, DRIFT = 25, {"cpu": 0.15, "cuda": 0.03}
# The least number of calls of a record, with the making of its tensors. If the budget is too short, it is skipped.
CALLS_OF_A_RECORD = 8
# The share of memory that the tensors of one kernel may take, and how many times its moved bytes these tensors are.
MEMORY_SHARE, TENSORS = 0.5, 2.5
# Below this number of operations for each byte, memory limits a processor's kernel, which then must not find its data
# in a cache. A product with more operations reads through its caches in training, too.
INTENSE = 16
Advance = Callable[[Result], None]


def new_result(device: str, threads: int, budget: float | None, command: str, version: str) -> Result:
    """A result without records."""
    now = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
    return {
        "schema": SCHEMA, "id": "", "date": now, "command": command, "amped": version, "wall_s": 0.0,
        "budget_s": budget, "device": device_of(device), "host": host_of(threads), "software": software_of(),
        "settings": {"seed": SEED, "distribution": f"normal*{SCALE:g}", "flush_l2": True, "statistic": STATISTIC[device],
                     "clock": "events" if device == "cuda" else "thread" if threads == 1 else "wall"},
        "records": [], "skipped": [], "sentinels": [],
    }  # fmt: skip


@dataclass
class Runner:
    """Measures kernels one after another, and adds them to a result.

    Attributes:
        result: the result to fill.
        timer: the timer of the device.
        advance: gets the result after each kernel.
        budget: seconds for all kernels; None for no limit.
        cap: seconds of one record.
        build: makes the call of a kernel.
        clock: the clock for the budget.
        rounds: the most rounds over all kernels.
    """

    result: Result
    timer: Timer
    advance: Advance = lambda result: None
    budget: float | None = None
    cap: float = RECORD_TIME
    build: Callable[[KernelSpec, str], Made] = built
    clock: Clock = time.perf_counter
    rounds: int = 1
    _began: float = field(init=False)
    _before: float = field(init=False)
    _filling: float = field(init=False)

    def run(self, suite: Sequence[KernelSpec], before: Sequence[KernelSpec] = ()) -> Result:
        """Measures all kernels of a suite, or lists them as skipped; the rest of the budget is used for more rounds.

        `before` are kernels of an earlier run; they are measured in the further rounds, too. A neighbor that slows the
        processor down for minutes does not do so in every round, and the minimum ignores it.
        """
        self._began, self._before = self.clock(), self.result["wall_s"]
        for number, kernel in enumerate(suite):
            if number % SENTINEL_EVERY == 0:
                self._look_at_sentinel()
            kept(self.result, kernel, self._reason_to_skip(kernel) or self._measurement(kernel))
            self._advanced()
        for number in range(self.rounds - 1 if self.result["records"] else 0):
            if not self._repeated([*before, *suite], only_doubtful=number % 2 == 0):
                break
        return self.result

    def _repeated(self, suite: Sequence[KernelSpec], only_doubtful: bool) -> bool:
        """Measures another round, of all kernels or only of those with flags; returns whether the budget was enough."""
        measured = {key_of(r): r for r in self.result["records"]}
        kernels = [kernel for kernel in suite if kernel.key in measured]
        for kernel in [k for k in kernels if measured[k.key]["flags"] or not only_doubtful]:
            if self._left() < 4 * self.cap:
                return False
            record, fresh = measured[kernel.key], self._measurement(kernel)
            if isinstance(fresh, dict):
                calls = record["time_s"]["n"] + fresh["time_s"]["n"]
                if _is_better(fresh, record):
                    record.update(fresh)
                record["time_s"]["n"] = calls
            self._advanced()
        return True

    def _advanced(self) -> None:
        """Marks slowed records, notes the time that is spent, and reports the result."""
        mark_slowed(self.result)
        self.result["wall_s"] = self._before + self._spent()
        self.advance(self.result)

    def _spent(self) -> float:
        return self.clock() - self._began

    def _left(self) -> float:
        """The seconds that are left of the budget."""
        return self.budget - self._spent() if self.budget is not None else float("inf")

    def _measurement(self, kernel: KernelSpec) -> dict[str, Any] | str:
        """The record of a kernel, or the reason why there is none."""
        device = self.timer.device
        alone = kernel.kernel == "launch"  # the one kernel whose launches in a graph are what is asked
        cold = not alone and (device == "cuda" or kernel.flop < INTENSE * kernel.bytes)
        eager = device == "cuda" and alone and kernel.params["mode"] == "eager"
        try:
            call, name = self.build(kernel, device)
            timing = self.timer.dispatched(call) if eager else self.timer.measure(call, self.cap, cold, alone)
        except (RuntimeError, NotImplementedError, MemoryError, TypeError) as error:
            freed(device)
            return told_of(error)
        return record_of(kernel, name, timing, self.result) | {"gemm_tflops_beside": self._beside(timing)}

    def _reason_to_skip(self, kernel: KernelSpec) -> str:
        """The reason why a kernel is not measured: "memory" or "budget"; empty if there is none."""
        memory = self.result["device"].get("mem_bytes") or 0
        if memory and TENSORS * kernel.bytes > MEMORY_SHARE * memory:
            return "memory"
        least = CALLS_OF_A_RECORD * self._expected(kernel) + self._filling * kernel.bytes
        return "budget" if least > self._left() else ""

    def _expected(self, kernel: KernelSpec) -> float:
        """The seconds of one call at the rates of the first sentinel."""
        first = self.result["sentinels"][0]
        return float(max(kernel.flop / (first["gemm_tflops"] * 1e12), kernel.bytes / (first["copy_gbs"] * 1e9)))

    def _look_at_sentinel(self) -> None:
        """Adds the rates of a product and a copy that are always the same; they show whether clocks drift."""
        product, copy = sentinel(self.timer.device)
        rates = []
        for kernel, work in ((product, product.flop), (copy, copy.bytes)):
            began = self.clock()
            call = self.build(kernel, self.timer.device)[0]
            self._filling = (self.clock() - began) / kernel.bytes  # of the copy, which is last
            timing = self.timer.measure(call, self.cap / 2)
            rates.append(work / timing.best(self.timer.device))
        look = {"at_s": self._before + self._spent(), "gemm_tflops": rates[0] / 1e12, "copy_gbs": rates[1] / 1e9}
        self.result["sentinels"].append(look)

    def _beside(self, timing: Timing) -> float:
        """The TFLOP/s of the sentinel's product, measured with a record; else those of the last look at it."""
        if timing.beside is None:
            return float(self.result["sentinels"][-1]["gemm_tflops"])
        return sentinel(self.timer.device)[0].flop / timing.beside / 1e12


def kept(result: Result, kernel: KernelSpec, outcome: dict[str, Any] | str) -> None:
    """Adds an outcome to a result: the record of a kernel, or the reason why there is none."""
    if isinstance(outcome, str):
        result["skipped"].append({**vars(kernel), "reason": outcome})
    else:
        result["records"].append(outcome)


def record_of(kernel: KernelSpec, impl: str, timing: Timing, result: Result) -> dict[str, Any]:
    """The record of a kernel: its sizes, work, times and flags. `impl` is the name of its implementation."""
    return {
        **vars(kernel), "impl": impl, "flop": kernel.flop, "bytes": kernel.bytes, "time_s": timing.as_plain(),
        "flags": timing.flags(result["device"]["kind"]), "sentinel": len(result["sentinels"]) - 1,
    }  # fmt: skip


def _is_better(fresh: dict[str, Any], record: dict[str, Any]) -> bool:
    """Whether a repeated measurement replaces a record: its machine was quieter, or as quiet and its time shorter."""
    quieter = fresh["gemm_tflops_beside"] / record["gemm_tflops_beside"]
    return bool(quieter > QUIET or (quieter * QUIET > 1 and fresh["time_s"]["min"] < record["time_s"]["min"]))


def mark_slowed(result: Result) -> None:
    """Marks the records whose sentinel product was slower than usual, because of clocks or neighbors."""
    least = (1 - DRIFT[result["device"]["kind"]]) * usual_rate(result)
    for record in (r for r in result["records"] if "gemm_tflops_beside" in r):
        slow = record["gemm_tflops_beside"] < least
        record["flags"] = [flag for flag in record["flags"] if flag != "throttled"] + (["throttled"] if slow else [])


def told_of(error: BaseException) -> str:
    """The reason, in one line, why an error kept a kernel from being measured."""
    return "out of memory" if is_out_of_memory(error) else first_line(error)[:200]


def freed(device: str) -> None:
    """Frees a GPU's unused memory after a kernel that did not fit.

    After a refused capture, torch's allocator frees nothing and says so with an error; the run goes on without.
    """
    if device == "cuda":
        with contextlib.suppress(RuntimeError):
            torch.cuda.empty_cache()


def timer_of(result: Result) -> Timer:
    """The timer for the device of a result."""
    if result["device"]["kind"] == "cuda":
        return timer_for("cuda")
    product, best = sentinel("cpu")[0], usual_rate(result)
    quietest = product.flop / best / 1e12 if best else float("inf")
    return timer_for("cpu", result["device"].get("l2_bytes") or 32 << 20, built(product, "cpu")[0], quietest)
