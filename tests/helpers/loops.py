"""Training loops on processors, recorded by PyTorch's profiler: `python -m tests.helpers.loops LOOP FOLDER RANK RANKS PORT [FAULT]`."""

import os
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

WIDTH, HEADS, LENGTH, BATCH, LAYERS, STEPS = 256, 4, 128, 4, 2, 3
ODD = 252  # a width that is no multiple of 64
SLEEP = 0.3
LOOPS = {"dense": 1, "mixture": 1, "recomputation": 1, "lora": 1, "data": 2, "fsdp2": 2, "pipeline": 2}


def recorded_loop(loop: str, folder: Path, fault: str = "") -> list[Path]:
    """The traces of a loop, one of each rank."""
    ranks = LOOPS[loop]
    port = str(20000 + os.getpid() % 20000)
    command = [sys.executable, "-m", "tests.helpers.loops", loop, str(folder)]
    runs = [subprocess.Popen([*command, str(rank), str(ranks), port, fault]) for rank in range(ranks)]
    codes = [run.wait(300) for run in runs]
    if any(codes):
        raise RuntimeError(f"the loop {loop} ended with an error")
    return [folder / f"rank{rank}.json" for rank in range(ranks)]


def main(loop: str, folder: str, rank: int, ranks: int, port: str, fault: str) -> None:
    """Records a loop on one rank."""
    import torch
    from torch.profiler import ProfilerActivity, profile, schedule

    torch.set_num_threads(1)
    torch.manual_seed(0)
    if ranks > 1:
        place = f"tcp://127.0.0.1:{port}"
        torch.distributed.init_process_group("gloo", init_method=place, rank=rank, world_size=ranks)
    step = MADE[loop](fault, rank, ranks)
    wait = schedule(wait=0, warmup=1, active=STEPS, repeat=1)
    with profile(activities=[ProfilerActivity.CPU], schedule=wait, record_shapes=True, profile_memory=True) as profiler:
        for _ in range(STEPS + 1):
            step()
            if fault == "sleep" or (fault == "slow rank" and rank == 1):
                time.sleep(SLEEP)
            profiler.step()
    profiler.export_chrome_trace(f"{folder}/rank{rank}.json")
    if ranks > 1:
        torch.distributed.barrier()
        torch.distributed.destroy_process_group()


def _width(fault: str) -> int:
    return ODD if fault == "odd width" else WIDTH


def _layers(fault: str) -> Any:
    import torch

    width = _width(fault)
    return torch.nn.ModuleList(
        torch.nn.TransformerEncoderLayer(width, HEADS, 4 * width, batch_first=True, dropout=0.0) for _ in range(LAYERS)
    )


def _loop(layers: Any, forward: Callable[[Any], Any], width: int) -> Callable[[], None]:
    import torch

    optimizer = torch.optim.AdamW([p for p in layers.parameters() if p.requires_grad])

    def step() -> None:
        forward(torch.randn(BATCH, LENGTH, width)).square().mean().backward()
        optimizer.step()
        optimizer.zero_grad()

    return step


def _through(layers: Any) -> Callable[[Any], Any]:
    def forward(x: Any) -> Any:
        for layer in layers:
            x = layer(x)
        return x

    return forward


def dense(fault: str, rank: int, ranks: int) -> Callable[[], None]:
    if fault == "recomputation":
        return recomputation("", rank, ranks)
    layers = _layers(fault)
    return _loop(layers, _through(layers), _width(fault))


def recomputation(fault: str, rank: int, ranks: int) -> Callable[[], None]:
    from torch.utils.checkpoint import checkpoint

    layers = _layers(fault)

    def forward(x: Any) -> Any:
        for layer in layers:
            x = checkpoint(layer, x, use_reentrant=False)
        return x

    return _loop(layers, forward, _width(fault))


def mixture(fault: str, rank: int, ranks: int) -> Callable[[], None]:
    """A mixture of four experts, of which each token takes one."""
    import torch

    width, experts = _width(fault), 4
    layers = _layers(fault)
    router = torch.nn.Linear(width, experts)
    both = torch.nn.ModuleList(torch.nn.Sequential(torch.nn.Linear(width, 2 * width), torch.nn.SiLU(), torch.nn.Linear(2 * width, width)) for _ in range(experts))  # fmt: skip
    whole = torch.nn.ModuleList([layers, router, both])

    def forward(x: Any) -> Any:
        x = _through(layers)(x).reshape(-1, width)
        weights, chosen = router(x).softmax(-1).max(-1)
        y = torch.zeros_like(x)
        for number, expert in enumerate(both):
            tokens = (chosen == number).nonzero(as_tuple=True)[0]
            y = y.index_add(0, tokens, expert(x[tokens]) * weights[tokens, None])
        return y

    return _loop(whole, forward, width)


def lora(fault: str, rank: int, ranks: int) -> Callable[[], None]:
    """Frozen products with small trained ones beside them."""
    import torch

    width = _width(fault)

    class Adapted(torch.nn.Module):  # type: ignore[misc]
        def __init__(self) -> None:
            super().__init__()
            self.frozen = torch.nn.Linear(width, 4 * width).requires_grad_(False)
            self.down, self.up = torch.nn.Linear(width, 8, bias=False), torch.nn.Linear(8, 4 * width, bias=False)
            self.back = torch.nn.Linear(4 * width, width).requires_grad_(False)

        def forward(self, x: Any) -> Any:
            return x + self.back(torch.nn.functional.gelu(self.frozen(x) + self.up(self.down(x))))

    layers = torch.nn.ModuleList(Adapted() for _ in range(2 * LAYERS))
    return _loop(layers, _through(layers), width)


def data(fault: str, rank: int, ranks: int) -> Callable[[], None]:
    from torch.nn.parallel import DistributedDataParallel

    layers = _layers(fault)
    whole = DistributedDataParallel(_Through(layers))
    return _loop(whole, whole, _width(fault))


def fsdp2(fault: str, rank: int, ranks: int) -> Callable[[], None]:
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.fsdp import fully_shard

    layers = _layers(fault)
    mesh, whole = init_device_mesh("cpu", (ranks,)), _Through(layers)
    for layer in layers:
        fully_shard(layer, mesh=mesh)
    fully_shard(whole, mesh=mesh)
    return _loop(whole, whole, _width(fault))


def pipeline(fault: str, rank: int, ranks: int) -> Callable[[], None]:
    import torch
    from torch.distributed.pipelining import PipelineStage, Schedule1F1B

    stage_layers, width = _layers(fault), _width(fault)
    stage = PipelineStage(_Through(stage_layers), rank, ranks, torch.device("cpu"))
    schedule = Schedule1F1B(stage, 4, loss_fn=lambda y, target: (y - target).square().mean())
    optimizer = torch.optim.AdamW(stage_layers.parameters())

    def step() -> None:
        x = torch.randn(BATCH, LENGTH, width)
        schedule.step(x) if rank == 0 else schedule.step(target=x)
        optimizer.step()
        optimizer.zero_grad()

    return step


def _Through(layers: Any) -> Any:  # noqa: N802
    import torch

    return torch.nn.Sequential(*layers)


MADE = {f.__name__: f for f in (dense, mixture, recomputation, lora, data, fsdp2, pipeline)}

if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], int(sys.argv[3]), int(sys.argv[4]), sys.argv[5], sys.argv[6])
