"""Runs a suite: kernel after kernel within a budget, written down as it goes, with what was skipped and why."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

from amped.kernels.callables import SCALE, SEED, built
from amped.kernels.device import device_of, host_of, software_of
from amped.kernels.results import SCHEMA, Result, entry_of, key_of
from amped.kernels.specs import KernelSpec, sentinel
from amped.kernels.timers import QUIET, timer_for
from amped.kernels.timing import RECORD_TIME, STATISTIC, Timer, Timing
from amped.kernels.torch_import import torch_module

# Records between two looks at the sentinel, and the drift beyond which what follows was measured at another clock.
SENTINEL_EVERY, DRIFT = 25, {"cpu": 0.15, "cuda": 0.03}
# Calls that a record takes at least, with its tensors made: it is skipped where so many do not fit into the budget.
CALLS_OF_A_RECORD = 8
# Share of memory that the tensors of one kernel may take, as a multiple of the bytes that it moves.
MEMORY_SHARE, TENSORS = 0.5, 2.5
# Operations for each byte below which memory sets the pace of a processor's kernel, which then must not find its data in
# a cache; a product that computes more reads through its caches anyway, as it does in training.
INTENSE = 16
Advance = Callable[[Result], None]


def new_result(device: str, threads: int, budget: float | None, command: str, version: str) -> Result:
    """A result without records."""
    now = datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    return {
        "schema": SCHEMA, "id": "", "date": now, "command": command, "amped": version, "wall_s": 0.0,
        "budget_s": budget, "device": device_of(device), "host": host_of(threads), "software": software_of(),
        "settings": {"seed": SEED, "distribution": f"normal*{SCALE:g}", "flush_l2": True, "statistic": STATISTIC[device],
                     "clock": "events" if device == "cuda" else "thread" if threads == 1 else "wall"},
        "records": [], "skipped": [], "sentinels": [],
    }  # fmt: skip


@dataclass
class Runner:
    """Measures kernels one after another into a result.

    Attributes:
        result: what is filled; `advance` is told it after each kernel.
        timer: of the device; `build` makes a kernel's call; `budget` are seconds for all, None without an end.
        cap: seconds of one record; `clock` for the budget; `rounds` at most, over everything.
    """

    result: Result
    timer: Timer
    advance: Advance = lambda result: None
    budget: float | None = None
    cap: float = RECORD_TIME
    build: Callable[[KernelSpec, str], tuple[Callable[[], Any], str]] = built
    clock: Callable[[], float] = time.perf_counter
    rounds: int = 1
    _began: float = field(default=0.0, init=False)
    _before: float = field(default=0.0, init=False)
    _filling: float = field(default=0.0, init=False)

    def run(self, suite: Sequence[KernelSpec], before: Sequence[KernelSpec] = ()) -> Result:
        """Measures all kernels of a suite, or lists them as skipped; what is left of the budget goes into more rounds.

        `before` are kernels that an earlier run measured, and that more rounds are for too.

        Minutes in which a neighbor slows the processor down do not come in every round, and minima forget them.
        """
        self._began, self._before = self.clock(), self.result["wall_s"]
        for number, each in enumerate(suite):
            if number % SENTINEL_EVERY == 0:
                self._look_at_sentinel()
            reason = self._reason_to_skip(each)
            if reason:
                self._skip(each, reason)
            else:
                self._measure(each)
            self._advanced()
        for number in range(self.rounds - 1 if self.result["records"] else 0):
            if not self._repeated([*before, *suite], only_doubtful=number % 2 == 0):
                break
        return self.result

    def _repeated(self, suite: Sequence[KernelSpec], only_doubtful: bool) -> bool:
        """Another round, of all or of what was slowed down or noisy; false once the budget is spent."""
        measured = {key_of(r): r for r in self.result["records"]}
        doubtful = [e for e in suite if e.key in measured and measured[e.key]["flags"]]
        for each in doubtful if only_doubtful else [e for e in suite if e.key in measured]:
            if self.budget is not None and self._spent() + 4 * self.cap > self.budget:
                return False
            record, fresh = measured[each.key], self._measurement(each)
            if isinstance(fresh, dict):
                calls = record["time_s"]["n"] + fresh["time_s"]["n"]
                if _better(fresh, record):
                    record.update(fresh)
                record["time_s"]["n"] = calls
            self._advanced()
        return True

    def _advanced(self) -> None:
        mark_slowed(self.result)
        self.result["wall_s"] = self._before + self._spent()
        self.advance(self.result)

    def _spent(self) -> float:
        return self.clock() - self._began

    def _measure(self, each: KernelSpec) -> None:
        found = self._measurement(each)
        if isinstance(found, str):
            self._skip(each, found)
        else:
            self.result["records"].append(found)

    def _measurement(self, each: KernelSpec) -> dict[str, Any] | str:
        """The record of a kernel, or why there is none."""
        device = self.timer.device
        cold = each.kernel != "launch" and (device == "cuda" or each.flop < INTENSE * each.bytes)
        try:
            call, name = self.build(each, device)
            eager = device == "cuda" and each.kernel == "launch" and each.params["mode"] == "eager"
            timing = self.timer.dispatched(call) if eager else self.timer.measure(call, self.cap, cold)
        except (RuntimeError, NotImplementedError, MemoryError, TypeError) as error:
            freed(device)
            return told_of(error)
        return {
            **entry_of(each), "impl": name, "flop": each.flop, "bytes": each.bytes, "time_s": timing.as_plain(),
            "flags": timing.flags(device), "sentinel": len(self.result["sentinels"]) - 1,
            "gemm_tflops_beside": self._beside(timing),
        }  # fmt: skip

    def _skip(self, each: KernelSpec, reason: str) -> None:
        self.result["skipped"].append({**entry_of(each), "reason": reason})

    def _reason_to_skip(self, each: KernelSpec) -> str:
        memory = self.result["device"].get("mem_bytes") or 0
        if memory and TENSORS * each.bytes > MEMORY_SHARE * memory:
            return "memory"
        left = self.budget - self._spent() if self.budget is not None else None
        if left is not None and CALLS_OF_A_RECORD * self._expected(each) + self._filling * each.bytes > left:
            return "budget"
        return ""

    def _expected(self, each: KernelSpec) -> float:
        """Seconds of one call at the rates of the first sentinel."""
        first = self.result["sentinels"][0]
        return float(max(each.flop / (first["gemm_tflops"] * 1e12), each.bytes / (first["copy_gbs"] * 1e9)))

    def _look_at_sentinel(self) -> None:
        """Times a product and a copy that stay the same, to see clocks drift."""
        product, copy = sentinel(self.timer.device)
        rates = []
        for each, work in ((product, product.flop), (copy, copy.bytes)):
            began = self.clock()
            call = self.build(each, self.timer.device)[0]
            self._filling = (self.clock() - began) / each.bytes  # the copy's, which comes last
            timing = self.timer.measure(call, self.cap / 2)
            rates.append(work / timing.best(self.timer.device))
        own = {"at_s": self._before + self._spent(), "gemm_tflops": rates[0] / 1e12, "copy_gbs": rates[1] / 1e9}
        self.result["sentinels"].append(own)

    def _beside(self, timing: Timing) -> float:
        """TFLOP/s of the sentinel's product beside a record, or at the last look at it."""
        if timing.beside is None:
            return float(self.result["sentinels"][-1]["gemm_tflops"])
        return sentinel(self.timer.device)[0].flop / timing.beside / 1e12


def _better(fresh: dict[str, Any], record: dict[str, Any]) -> bool:
    """Whether a repetition was made on a quieter machine, or on as quiet a one and faster."""
    quieter = fresh["gemm_tflops_beside"] / record["gemm_tflops_beside"]
    return bool(quieter > QUIET or (quieter * QUIET > 1 and fresh["time_s"]["min"] < record["time_s"]["min"]))


def mark_slowed(result: Result) -> None:
    """Marks the records beside which the sentinel's product ran slower than at its best: clocks or neighbors."""
    own = [r for r in result["records"] if "gemm_tflops_beside" in r]
    best = max((r["gemm_tflops_beside"] for r in own), default=0.0)
    for record in own:
        slow = record["gemm_tflops_beside"] < (1 - DRIFT[result["device"]["kind"]]) * best
        record["flags"] = [flag for flag in record["flags"] if flag != "throttled"] + (["throttled"] if slow else [])


def told_of(error: BaseException) -> str:
    """Why a kernel was not measured, in a line."""
    text = str(error).splitlines()[0] if str(error) else type(error).__name__
    short = "out of memory" if "out of memory" in text.lower() or isinstance(error, MemoryError) else text
    return short[:200]


def freed(device: str) -> None:
    """Gives memory back after a kernel that did not fit."""
    if device == "cuda":
        torch_module().cuda.empty_cache()


def timer_of(result: Result) -> Timer:
    """The timer for the device of a result."""
    threads = result["host"].get("threads") or 1
    cache = result["device"].get("l2_bytes") or 32 << 20
    if result["device"]["kind"] == "cuda":
        return timer_for("cuda", cache)
    product = sentinel("cpu")[0]
    seen = [product.flop / r["gemm_tflops_beside"] / 1e12 for r in result["records"] if "gemm_tflops_beside" in r]
    return timer_for("cpu", cache, threads, built(product, "cpu")[0], min(seen, default=float("inf")))


def set_threads(threads: int) -> None:
    """Lets torch use so many threads; one by default on a CPU: several wait for one another on a busy machine."""
    torch_module().set_num_threads(threads)
