"""A run that is as its estimate but for one fault: the fault is the first line of the answer."""

from collections.abc import Callable
from functools import cache
from pathlib import Path

import pytest

import amped
from amped.estimation.estimation import Estimation
from amped.interop.traces.gaps import gaps
from amped.interop.traces.measuring import MeasuredStep, measured_step
from amped.interop.traces.reading import read_traces
from amped.theory.nouns.parallelisms import PARALLELISMS
from tests.helpers.loops import LOOPS, recorded_loop
from tests.helpers.traces import ADD, GATHER, GEMM, Written

SEND, FLASH = "ncclDevKernel_SendRecv(x)", "void pytorch_flash::flash_fwd_kernel<x>(Flash_fwd_params)"
NODE = "autograd::engine::evaluate_function: AddmmBackward0"
PIECES, AHEAD = 10, 50.0
# Of the estimated step, the seconds that a fault costs.
COST = 0.2


class Run(Written):
    """A step that runs as estimated, kernel after kernel, each launched in time; a fault changes it."""

    def __init__(self, e: Estimation, rank: int = 0) -> None:
        super().__init__(rank, 2)
        self.e, self.at, self.cost = e, 0.0, COST * e["step_time"] * 1e6
        self.groups = {group.name: group.time * 1e6 for group in e.results.records("step_kernel_groups")}

    def times(self, *quantities: str) -> float:
        return sum(self.e[name] for name in quantities) * 1e6

    def ran(
        self, name: str, time: float, late: float = 0.0, stream: int = 7, operator: str = "", **of_operator: object
    ) -> None:
        for _ in range(PIECES if time else 0):
            launched = self.at + late / PIECES - (0 if late else AHEAD)
            if operator:
                self.host(operator, launched - 2, 3, **of_operator)
            self.kernel(name, launched, self.at + late / PIECES, time / PIECES, stream)
            self.at += (time + late) / PIECES


def as_estimated(run: Run, fault: str = "", slow: bool = False) -> None:
    """The kernels of a step; `fault` changes one part of it."""
    messages = [kind for kind in PARALLELISMS if kind != "pipeline"]
    exposed = run.times(*(f"exposed_{kind}_communication_time" for kind in messages))
    hidden = run.times(*(f"hidden_{kind}_communication_time" for kind in messages))
    product, start = run.groups["products"], run.at
    shapes = {"Input Dims": [[4096, 4095 if fault == "odd" else 4096], [4096, 4096]]}
    if fault == "odd" or slow:
        product += run.cost * (2 if slow else 1)
    run.ran(GEMM, product, operator="aten::mm", **shapes)
    kept = min(hidden, run.at - start)
    if fault != "prefetch":
        run.kernel(GATHER, start - AHEAD, start, kept, stream=9)
    run.ran(FLASH, run.groups["attention"])
    run.ran(ADD, run.times("other_kernel_time"))
    again = run.times("recomputation_time") + (run.cost if fault == "recomputation" else 0)
    if again:
        begin = run.at - AHEAD - 10
        run.ran(GEMM, again, operator="aten::linear", **{"Sequence number": 5})
        run.host(NODE, begin, run.at - begin, **{"Sequence number": 1, "Fwd thread id": 1})
    late = run.times("kernel_wait_time") + (run.cost if fault in ("sleep", "copy") else 0)
    if fault == "copy":
        for piece in range(PIECES):  # .item(): a copy to the host, for which the host waits
            run.host("cudaStreamSynchronize", run.at - AHEAD, AHEAD + 1, "cuda_runtime", correlation=10**6 + piece)
            run.kernel(ADD, run.at + late / PIECES, run.at + late / PIECES, 0.1)
            run.at += late / PIECES + 0.1
    else:
        run.ran(ADD, 1.0, late=late)
    waits = run.cost * 2 if fault == "slow" and not slow else 0
    run.ran(GATHER, exposed + waits + (kept if fault == "prefetch" else 0), stream=9)
    run.ran(SEND, run.times("exposed_pipeline_communication_time", "pipeline_bubble_time"), stream=11)
    begin = run.at - AHEAD - 10
    run.ran(ADD, run.times("optimizer_time"))
    run.host("Optimizer.step#AdamW.step", begin, run.at - begin - AHEAD - 5, "user_annotation")


def steps_of(e: Estimation, fault: str, folder: Path) -> list[MeasuredStep]:
    """Two ranks, each with two steps and the begin of a third."""
    paths = []
    for rank in (0, 1):
        run = Run(e, rank)
        run.at = 1000.0
        for number in range(3):
            begin = run.at - AHEAD - 5
            as_estimated(run, fault, slow=fault == "slow" and rank == 1)
            run.step(number, begin, run.at - begin - AHEAD - 6)
        paths.append(run.written(folder / f"{rank}.json"))
    return [measured_step(trace) for trace in read_traces(paths)]


CONFIGS: dict[str, Callable[[], Estimation]] = {
    "dense, ZeRO 3": cache(lambda: amped.estimate(model="Llama 3 8B", system="DGX H100", gpus=16, zero=3)),
    "dense, pipeline": cache(lambda: amped.estimate("default")),
}
SAID = {
    "prefetch": "prefetch or another overlap is off",
    "sleep": "of the kernels too late",
    "odd": "no multiple of 64",
    "slow": "process 1 works",
    "recomputation": "activation checkpointing is on",
    "copy": "synchronous copies",
}


@pytest.mark.parametrize("config", CONFIGS)
def test_the_fault_is_the_first_line(config: str, tmp_path: Path) -> None:
    e = CONFIGS[config]()
    plain = gaps(steps_of(e, "", tmp_path), e)
    assert max(abs(gap.gap) for gap in plain) < 0.01 * e["step_time"]

    for fault, said in SAID.items():
        steps = steps_of(e, fault, tmp_path)
        found = gaps(steps, e)
        assert said in found[0].closes, found[:2]
        assert sum(gap.measured for gap in found) == pytest.approx(sum(s.step_time for s in steps) / 2, rel=1e-9)


@pytest.mark.on_request
@pytest.mark.parametrize("loop", LOOPS)
def test_the_time_of_a_real_loop_has_a_class(loop: str, tmp_path: Path) -> None:
    pytest.importorskip("torch", reason="needs the extra torch")
    for trace in read_traces(recorded_loop(loop, tmp_path)):
        step = measured_step(trace)
        assert step.time_of("unassigned") < 0.05 * step.step_time
        assert sum(share.time for share in step.shares) == pytest.approx(step.step_time, rel=1e-9)
        assert (step.time_of("products", "attention", "others", kinds=("recomputation",)) > 0) == (
            loop == "recomputation"
        )
