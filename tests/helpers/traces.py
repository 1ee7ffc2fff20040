"""Traces written by hand: of a device with its host, in the format of PyTorch's profiler."""

import gzip
import json
from pathlib import Path
from typing import Any

DATA = Path(__file__).parents[1] / "data" / "traces"
HOST, DEVICE = 100, 0
GEMM = "sm90_xmma_gemm_bf16bf16_bf16f32_f32_tn_n_tilesize128x128x64_cublas"
NORM = "void at::native::(anonymous namespace)::vectorized_layer_norm_kernel<float, float>(int, float, float const*)"
ADD = "void at::native::vectorized_elementwise_kernel<4, at::native::CUDAFunctor_add<float>, at::detail::Array<char*, 3> >(int)"
GATHER = "ncclDevKernel_AllGather_RING_LL(ncclDevKernelArgsStorage<4096ul>)"


class Written:
    """A trace that grows event by event; times are microseconds."""

    def __init__(self, rank: int = 0, ranks: int = 1) -> None:
        self.head: dict[str, Any] = {"schemaVersion": 1, "deviceProperties": [{"id": 0, "name": "NVIDIA H100"}]}
        self.head["distributedInfo"] = {"backend": "nccl", "rank": rank, "world_size": ranks}
        self.events: list[dict[str, Any]] = [{"ph": "M", "name": "process_name", "pid": HOST, "args": {"name": "p"}}]
        self.number = 0

    def host(
        self, name: str, start: float, time: float, category: str = "cpu_op", thread: int = HOST, **args: Any
    ) -> "Written":
        self.events.append({"ph": "X", "cat": category, "name": name, "pid": HOST, "tid": thread, "ts": start, "dur": time, "args": args})  # fmt: skip
        return self

    def step(self, number: int, start: float, time: float) -> "Written":
        return self.host(f"ProfilerStep#{number}", start, time, "user_annotation")

    def kernel(
        self, name: str, launched: float, start: float, time: float, stream: int = 7, category: str = "kernel"
    ) -> "Written":
        """A kernel, and its launch, which ends at `launched` and takes a microsecond."""
        self.number += 1
        link = {"correlation": self.number}
        self.host("cudaLaunchKernel", launched - 1, 1, "cuda_runtime", **link)
        self.events.append({"ph": "X", "cat": category, "name": name, "pid": DEVICE, "tid": stream, "ts": start, "dur": time,
                            "args": {"device": 0, "stream": stream, **link}})  # fmt: skip
        return self

    def written(self, path: Path) -> Path:
        text = json.dumps({**self.head, "traceEvents": self.events, "traceName": path.name})
        path.write_bytes(gzip.compress(text.encode()) if path.suffix == ".gz" else text.encode())
        return path
