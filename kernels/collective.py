"""Collectives between processes of this machine: gloo on CPUs; NCCL if each process has a GPU."""

from __future__ import annotations

import multiprocessing
import queue
import socket
import statistics
import time
from collections.abc import Callable, Iterator
from datetime import timedelta
from typing import Any, Final

from amped.base.errors import ConfigError
from amped.kernels.cuda_timer import WARM_AGREEMENT
from amped.kernels.refusals import first_line
from amped.kernels.specs import KernelSpec
from amped.kernels.timing import RECORD_TIME, Call, Timing, repeated
from amped.kernels.torch_import import torch

# The seconds for all processes to meet, and to measure one size; and for the others to say what they met after one of
# them has ended.
MOST_WAIT, LAST_WORDS = 60.0, 5.0
LOOK_EVERY = 0.25
# How a process is started: anew, because one that is forked cannot use a GPU.
START: Final = "spawn"
# A warm-up ends when two means of WARM calls agree, or after these seconds.
WARM, WARM_TIME = 3, {"cpu": 0.02, "cuda": 0.2}
# A GPU's collectives run in rows of this many, behind a sleep of these cycles (a millisecond), in which all processes
# launch their rows.
ROW, SLEEP_CYCLES = 20, 1 << 21
Stopwatch = Callable[[Call], float]


def timings(specs: list[KernelSpec], ranks: int, device: str) -> Iterator[tuple[KernelSpec, Timing | str]]:
    """Each collective with its time on the first process, or with the reason why there is no time.

    Raises:
        ConfigError: if there are fewer GPUs than ranks, or no torch.distributed.
    """
    if not torch.distributed.is_available():
        raise ConfigError("this torch has no torch.distributed", "measure without --ranks")
    if device == "cuda" and torch.cuda.device_count() < ranks:
        what = f"--ranks {ranks} needs as many GPUs, and there are {torch.cuda.device_count()}"
        raise ConfigError(what, "choose fewer ranks, or --device cpu")
    context = multiprocessing.get_context(START)
    results, port = context.Queue(), _free_port()
    processes = [
        context.Process(target=_worker, args=(rank, ranks, port, device, specs, results), daemon=True)
        for rank in range(ranks)
    ]
    for process in processes:
        process.start()
    lost = ""
    try:
        for kernel in specs:
            timing, lost = (lost, lost) if lost else _taken(results, processes)
            yield kernel, timing
    finally:
        for process in processes:
            process.join(0.0 if lost else 1.0)
            process.terminate()


def _taken(results: Any, processes: list[Any]) -> tuple[Timing | str, str]:
    """The next result of the first process, and the reason why the processes are lost, or an empty text.

    If the processes are lost, no other collective needs to wait for them.
    """
    deadline, is_ending = time.monotonic() + MOST_WAIT, False
    while True:
        try:
            return results.get(timeout=LOOK_EVERY), ""
        except queue.Empty:
            ended = [p.exitcode for p in processes if p.exitcode]
            if ended and not is_ending:
                deadline, is_ending = min(deadline, time.monotonic() + LAST_WORDS), True
            if time.monotonic() > deadline:
                reason = f"a process ended with {ended[0]}" if ended else f"not done within {MOST_WAIT:.0f} s"
                return reason, reason


def _free_port() -> int:
    with socket.socket() as listening:
        listening.bind(("127.0.0.1", 0))
        return int(listening.getsockname()[1])


def _worker(rank: int, ranks: int, port: int, device: str, specs: list[KernelSpec], results: Any) -> None:
    """Runs in each process: calls all collectives. The first process puts the times, or the errors, into `results`."""
    torch.set_num_threads(1)
    backend = "nccl" if device == "cuda" else "gloo"
    if device == "cuda":
        torch.cuda.set_device(rank)
    torch.distributed.init_process_group(
        backend,
        init_method=f"tcp://127.0.0.1:{port}",
        rank=rank,
        world_size=ranks,
        timeout=timedelta(seconds=MOST_WAIT),
    )
    try:
        for kernel in specs:
            try:
                timing: Timing | str = _timed(kernel, rank, device)
            except RuntimeError as error:
                timing = first_line(error)[:200]
            if rank == 0:
                results.put(timing)
    finally:
        torch.distributed.destroy_process_group()


def _timed(kernel: KernelSpec, rank: int, device: str) -> Timing:
    """The time of a collective on this process."""

    def first_one_s(number: int) -> int:
        """The number that the first process has."""
        shared = torch.tensor([number], device=device)
        torch.distributed.broadcast(shared, 0)
        return int(shared.item())

    lapse = _gpu_lapse if device == "cuda" else _host_lapse
    trips = 2 if kernel.kernel == "send_receive" else 1
    return counted_together(_call(kernel, rank, device), lapse, first_one_s, WARM_TIME[device], trips)


def counted_together(
    call: Call, lapse: Stopwatch, first_one_s: Callable[[int], int], warm_time: float, trips: int
) -> Timing:
    """The time of a collective, which all processes must call equally often: the first one decides for all of them.

    Args:
        call: the collective.
        lapse: gives the seconds of a call.
        first_one_s: gives the first process's number to all.
        warm_time: the most seconds of the warm-up.
        trips: how often the payload crosses a link in a call.
    """
    call()
    previous_mean, spent = None, 0.0
    while True:
        times = [lapse(call) for _ in range(WARM)]
        mean = statistics.fmean(times)
        spent += sum(times)
        is_settled = previous_mean is not None and abs(mean - previous_mean) <= WARM_AGREEMENT * previous_mean
        if first_one_s(is_settled or spent > warm_time):
            break
        previous_mean = mean
    number_of_calls = first_one_s(repeated(mean, RECORD_TIME))
    return Timing.of([lapse(call) / trips for _ in range(number_of_calls)])


def _host_lapse(call: Call) -> float:
    """The seconds of one call by the host's clock; all processes start together."""
    torch.distributed.barrier()
    start = time.perf_counter()
    call()
    return time.perf_counter() - start


def _gpu_lapse(call: Call) -> float:
    """The mean seconds of several calls in a row: all processes launch them while their GPUs sleep, and start together."""
    cuda = torch.cuda
    start, end = cuda.Event(enable_timing=True), cuda.Event(enable_timing=True)
    torch.distributed.barrier()
    cuda.synchronize()
    cuda._sleep(SLEEP_CYCLES)
    start.record()
    for _ in range(ROW):
        call()
    end.record()
    cuda.synchronize()
    return float(start.elapsed_time(end)) / 1e3 / ROW


def _call(kernel: KernelSpec, rank: int, device: str) -> Call:
    """A function that calls a collective once. `bytes` is the whole payload, as in amped's own collectives."""
    dist, ranks = torch.distributed, kernel.params["ranks"]
    whole = torch.ones(max(ranks, kernel.params["bytes"] // 4 // ranks * ranks), device=device)
    part = torch.ones(len(whole) // ranks, device=device)
    gathered = torch.empty_like(whole)

    def send_receive() -> None:
        """Sends there and back: the sender alone does not know when the data has arrived."""
        for sender in (0, 1):
            if rank == sender:
                dist.send(whole, 1 - sender)
            elif rank == 1 - sender:
                dist.recv(whole, sender)

    return {
        "all_reduce": lambda: dist.all_reduce(whole),
        "all_gather": lambda: dist.all_gather_into_tensor(gathered, part),
        "reduce_scatter": lambda: dist.reduce_scatter_tensor(part, whole),
        "all_to_all": lambda: dist.all_to_all_single(gathered, whole),
        "broadcast": lambda: dist.broadcast(whole, 0),
        "send_receive": send_receive,
    }[kernel.kernel]
