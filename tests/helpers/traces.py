"""Traces written by hand: of a device with its host, in the format of PyTorch's profiler."""

import gzip
import json
import sqlite3
from contextlib import closing
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


# The tables of Nsight Systems' export that are read. Source: NVIDIA, Nsight Systems User Guide, "SQLite Schema Reference".
SCHEMA = """
CREATE TABLE StringIds (id INTEGER NOT NULL PRIMARY KEY, value TEXT NOT NULL);
CREATE TABLE TARGET_INFO_GPU (vmId INTEGER NOT NULL, id INTEGER NOT NULL, name TEXT);
CREATE TABLE CUPTI_ACTIVITY_KIND_KERNEL (start INTEGER NOT NULL, end INTEGER NOT NULL, deviceId INTEGER NOT NULL,
    contextId INTEGER NOT NULL, streamId INTEGER NOT NULL, correlationId INTEGER, globalPid INTEGER,
    demangledName INTEGER NOT NULL, shortName INTEGER NOT NULL);
CREATE TABLE CUPTI_ACTIVITY_KIND_MEMCPY (start INTEGER NOT NULL, end INTEGER NOT NULL, deviceId INTEGER NOT NULL,
    contextId INTEGER NOT NULL, streamId INTEGER NOT NULL, correlationId INTEGER, globalPid INTEGER, bytes INTEGER NOT NULL,
    copyKind INTEGER NOT NULL);
CREATE TABLE CUPTI_ACTIVITY_KIND_RUNTIME (start INTEGER NOT NULL, end INTEGER NOT NULL, eventClass INTEGER NOT NULL,
    globalTid INTEGER, correlationId INTEGER, nameId INTEGER NOT NULL, returnValue INTEGER NOT NULL);
CREATE TABLE NVTX_EVENTS (start INTEGER NOT NULL, end INTEGER, eventType INTEGER NOT NULL, text TEXT, globalTid INTEGER,
    textId INTEGER);
"""
COPIES = {"HtoD": 1, "DtoH": 2, "DtoD": 8}


def as_nsight(trace: Written, path: Path, process: int = 4711) -> Path:
    """The same trace as Nsight Systems exports it; ranges of PyTorch have what `emit_nvtx` adds to names."""

    whole = process << 24
    with closing(sqlite3.connect(path)) as file:
        file.executescript(SCHEMA)
        names = list(dict.fromkeys(str(event["name"]) for event in trace.events))
        file.executemany("INSERT INTO StringIds VALUES (?, ?)", enumerate(names))
        file.execute("INSERT INTO TARGET_INFO_GPU VALUES (0, 0, 'NVIDIA H100')")
        for event in (event for event in trace.events if event["ph"] == "X"):
            start = round(1000 * event["ts"]) + 10**12
            times, name, args = (start, start + round(1000 * event["dur"])), names.index(event["name"]), event["args"]
            number = args.get("correlation")
            match event["cat"]:
                case "kernel":
                    row: tuple[Any, ...] = (*times, 0, 1, event["tid"], number, whole, name, name)
                    file.execute(f"INSERT INTO CUPTI_ACTIVITY_KIND_KERNEL VALUES ({', '.join('?' * 9)})", row)
                case "gpu_memcpy":
                    row = (*times, 0, 1, event["tid"], number, whole, 1, COPIES[event["name"].split()[1]])
                    file.execute(f"INSERT INTO CUPTI_ACTIVITY_KIND_MEMCPY VALUES ({', '.join('?' * 9)})", row)
                case "cuda_runtime":
                    row = (*times, 0, whole + 7, number, name, 0)
                    file.execute(f"INSERT INTO CUPTI_ACTIVITY_KIND_RUNTIME VALUES ({', '.join('?' * 7)})", row)
                case _:
                    recorded = f", seq = {args['Sequence number']}" if "Sequence number" in args else ""
                    row = (*times, 59, event["name"] + recorded + ", op_id = 3", whole + 7, None)
                    file.execute("INSERT INTO NVTX_EVENTS VALUES (?, ?, ?, ?, ?, ?)", row)
        file.commit()
    return path
