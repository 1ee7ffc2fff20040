"""What was measured on: the device, its host and the software, as far as they can be found out."""

from __future__ import annotations

import contextlib
import os
import platform
import re
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from amped.kernels.torch_import import torch

Properties = dict[str, Any]
DEFAULT_CACHE = 32 << 20
# The 32-bit multiply-accumulates that a core starts in a cycle, by its widest instructions, with two units each.
# Source: Intel 64 and IA-32 Architectures Optimization Reference Manual, tables of throughput.
LANES = (("avx512f", 32), ("avx2", 16), ("avx", 8), ("asimd", 8))


def device_of(kind: str) -> Properties:
    """The properties of the device of a kind ("cpu" or "cuda"): its name, and what its speed depends on."""
    return _gpu() if kind == "cuda" else _cpu()


def _gpu() -> Properties:
    """The properties of the current GPU."""
    gpu = torch.cuda.get_device_properties(torch.cuda.current_device())
    return {
        "kind": "cuda", "name": gpu.name, "cc": f"{gpu.major}.{gpu.minor}", "sm": gpu.multi_processor_count,
        "l2_bytes": getattr(gpu, "L2_cache_size", None), "mem_bytes": gpu.total_memory, "count": torch.cuda.device_count(),
        **_nvidia_smi(getattr(gpu, "uuid", None)),
    }  # fmt: skip


def _nvidia_smi(uuid: object) -> Properties:
    """The driver, power limit, clocks and temperature of a GPU, as far as nvidia-smi tells them; nothing is set.

    Empty without nvidia-smi. The GPU is named by its UUID, because nvidia-smi also counts GPUs that the process may not
    see (CUDA_VISIBLE_DEVICES).
    """
    names = ("driver_version", "power.limit", "clocks.max.sm", "clocks.max.memory", "temperature.gpu")
    which = f"GPU-{uuid}" if uuid is not None else "0"
    command = ["nvidia-smi", f"--query-gpu={','.join(names)}", "--format=csv,noheader,nounits", f"--id={which}"]
    try:
        output = subprocess.run(command, capture_output=True, text=True, timeout=10, check=True).stdout
        driver, *numbers = (part.strip() for part in output.splitlines()[0].split(","))
        power, sm, memory, heat = map(_number, numbers)
    except (OSError, ValueError, IndexError, subprocess.SubprocessError):
        return {}
    clocks = {name: clock for name, clock in (("sm", sm), ("mem", memory)) if clock is not None}
    properties = {"driver": driver, "power_limit_w": power, "temperature_c": heat, "clock_mhz": clocks or None}
    return {name: value for name, value in properties.items() if value is not None}


def _number(written: str) -> float | None:
    """The number in a text; None for a value that nvidia-smi does not know (`[N/A]`)."""
    try:
        return float(written)
    except ValueError:
        return None


def processor() -> str:
    """The name of the processor, as the system gives it."""
    name = _found(r"model name\s*:\s*(.+)", _read("/proc/cpuinfo"))
    return name or platform.processor() or platform.machine() or "CPU"


def name_of(kind: str) -> str:
    """The name of the device, as the system gives it."""
    return str(torch.cuda.get_device_name()) if kind == "cuda" else processor()


@contextmanager
def one_thread(device: str) -> Iterator[None]:
    """Limits torch to one thread on a CPU while the block runs."""
    number_of_threads = torch.get_num_threads()
    if device == "cpu":
        torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(number_of_threads)


def _cpu() -> Properties:
    """The properties of the processor."""
    description = _read("/proc/cpuinfo")
    name = processor()
    flags = (_found(r"(?:flags|Features)\s*:\s*(.+)", description) or "").split()
    clock = _found(r"@ ([\d.]+)GHz", name)
    megahertz = float(clock) * 1e3 if clock else float(_found(r"cpu MHz\s*:\s*([\d.]+)", description) or 0)
    return {
        "kind": "cpu", "name": name, "cc": " ".join(f for f in flags if re.match(r"avx|amx|asimd|sve", f)),
        "l2_bytes": _largest_cache(), "mem_bytes": _memory(), "count": 1,
        "clock_mhz": {"core": megahertz} if megahertz else {},
        "mac_per_cycle": next((lanes for extension, lanes in LANES if extension in flags), None),
    }  # fmt: skip


def _largest_cache() -> int:
    """The bytes of the largest cache of the first core; a default if the system does not tell them."""
    sizes = []
    for path in sorted(Path("/sys/devices/system/cpu/cpu0/cache").glob("index*/size")):
        written = _read(str(path)).strip()
        with contextlib.suppress(ValueError):
            sizes.append(int(written.rstrip("KM")) * (1 << (20 if written.endswith("M") else 10)))
    return max(sizes, default=DEFAULT_CACHE)


def _memory() -> int:
    """The bytes of the machine's memory; 0 if the system does not tell them."""
    total = _found(r"MemTotal:\s*(\d+) kB", _read("/proc/meminfo"))
    return int(total) * 1024 if total else 0


def host_of(threads: int) -> Properties:
    """The host: its processor, cores and load."""
    load = os.getloadavg()[0] if hasattr(os, "getloadavg") else None
    system = f"{platform.system()} {platform.machine()}"
    return {"cpu": processor(), "cores": usable_cores(), "threads": threads, "loadavg": load, "system": system}


def usable_cores() -> int:
    """The number of cores that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def software_of() -> Properties:
    """The versions of software, and the switches that change how a product is computed."""
    cudnn = torch.backends.cudnn.version() if torch.cuda.is_available() else None
    names = ("allow_tf32", "allow_bf16_reduced_precision_reduction")
    switches = {name: bool(getattr(torch.backends.cuda.matmul, name)) for name in names}
    return {"torch": torch.__version__, "cuda": torch.version.cuda, "cudnn": cudnn, "triton": _version("triton"),
            "mkldnn": bool(torch.backends.mkldnn.is_available()), "python": platform.python_version(), "env": switches}  # fmt: skip


def _version(package: str) -> str | None:
    """The version of a package; None if it is not installed."""
    from importlib import metadata

    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return None


def _read(path: str) -> str:
    try:
        return Path(path).read_text("utf-8", "replace")
    except OSError:
        return ""


def _found(pattern: str, text: str) -> str | None:
    """The text of the pattern's first group where it matches; None if it does not match."""
    match = re.search(pattern, text)
    return match[1].strip() if match else None
