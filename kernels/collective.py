"""Collectives between processes of this machine: gloo on CPUs; NCCL if each process has a GPU."""

from __future__ import annotations

import multiprocessing
import queue
import socket
from collections.abc import Callable, Iterator
from typing import Any

from amped.base.errors import ConfigError
from amped.kernels.specs import KernelSpec
from amped.kernels.timers import CudaTimer
from amped.kernels.timing import Timing
from amped.kernels.torch_import import torch_module

# The seconds for all processes to meet, and to measure one size.
PATIENCE = 60.0
WARM, CALLS = 3, 15


def timings(specs: list[KernelSpec], ranks: int, device: str) -> Iterator[tuple[KernelSpec, Timing | str]]:
    """The time of each collective on the first process, or why there is no time.

    Raises:
        ConfigError: if there are fewer GPUs than ranks, or no torch.distributed.
    """
    torch = torch_module()
    if not torch.distributed.is_available():
        raise ConfigError("this torch has no torch.distributed", "measure without --ranks")
    if device == "cuda" and torch.cuda.device_count() < ranks:
        told = f"--ranks {ranks} needs as many GPUs, and there are {torch.cuda.device_count()}"
        raise ConfigError(told, "choose fewer ranks, or --device cpu")
    context = multiprocessing.get_context("spawn")
    found, port = context.Queue(), _free_port()
    processes = [
        context.Process(target=_worker, args=(rank, ranks, port, device, specs, found), daemon=True)
        for rank in range(ranks)
    ]
    for process in processes:
        process.start()
    try:
        for each in specs:
            yield each, _taken(found, processes)
    finally:
        for process in processes:
            process.join(1.0)
            process.terminate()


def _taken(found: Any, processes: list[Any]) -> Timing | str:
    try:
        got: Timing | str = found.get(timeout=PATIENCE)
        return got
    except queue.Empty:
        ended = [p.exitcode for p in processes if p.exitcode]
        return f"a process ended with {ended[0]}" if ended else f"not done within {PATIENCE:.0f} s"


def _free_port() -> int:
    with socket.socket() as listening:
        listening.bind(("127.0.0.1", 0))
        return int(listening.getsockname()[1])


def _worker(rank: int, ranks: int, port: int, device: str, specs: list[KernelSpec], found: Any) -> None:
    torch = torch_module()
    torch.set_num_threads(1)
    backend = "nccl" if device == "cuda" else "gloo"
    if device == "cuda":
        torch.cuda.set_device(rank)
    torch.distributed.init_process_group(backend, init_method=f"tcp://127.0.0.1:{port}", rank=rank, world_size=ranks)
    try:
        for each in specs:
            try:
                timing: Timing | str = _timed(each, rank, device)
            except RuntimeError as error:
                timing = str(error).splitlines()[0][:200]
            if rank == 0:
                found.put(timing)
    finally:
        torch.distributed.destroy_process_group()


def _timed(each: KernelSpec, rank: int, device: str) -> Timing:
    import time

    torch = torch_module()
    call = _call(each, rank, device)
    for _ in range(WARM):
        call()
    if device == "cuda":
        return CudaTimer().measure(call, cold=False)
    times, trips = [], 2 if each.kernel == "send_receive" else 1
    for _ in range(CALLS):
        torch.distributed.barrier()
        start = time.perf_counter()
        call()
        times.append((time.perf_counter() - start) / trips)
    return Timing.of(times)


def _call(each: KernelSpec, rank: int, device: str) -> Callable[[], Any]:
    """A function for one call; `bytes` is the whole payload, as amped's own collectives count it."""
    torch = torch_module()
    dist, ranks = torch.distributed, each.params["ranks"]
    whole = torch.ones(max(ranks, each.params["bytes"] // 4 // ranks * ranks), device=device)
    part = torch.ones(len(whole) // ranks, device=device)
    into = torch.empty_like(whole)

    def send_receive() -> None:
        """Sends there and back: the sender alone does not know when the data has arrived."""
        for sender in (0, 1):
            if rank == sender:
                dist.send(whole, 1 - sender)
            elif rank == 1 - sender:
                dist.recv(whole, sender)

    return {
        "all_reduce": lambda: dist.all_reduce(whole),
        "all_gather": lambda: dist.all_gather(list(into.chunk(ranks)), part),
        "reduce_scatter": lambda: dist.reduce_scatter_tensor(part, whole),
        "all_to_all": lambda: dist.all_to_all_single(into, whole),
        "broadcast": lambda: dist.broadcast(whole, 0),
        "send_receive": send_receive,
    }[each.kernel]
