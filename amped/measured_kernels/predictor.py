"""The rates that predict measured kernels of all kinds, and the time of an operator with these rates."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from amped.theory.nouns.link_records import Network
from amped.theory.nouns.mixer_records import Cores
from amped.theory.nouns.records import Kernels, Operator
from amped.theory.roofline.kernels import kernel_time
from amped.theory.roofline.mixers import BYTES_PER_CYCLE as BYTES_PER_CYCLE

Array = NDArray[np.float64]
Columns = Mapping[str, Any]
# Bytes of an entry in 16 bits and in full precision.
BYTES_16_BIT, BYTES_FP32 = 2.0, 4.0


@dataclass(frozen=True)
class Predictor:
    """The rates and sizes that predict the kernels of one accelerator in one precision.

    Attributes:
        rates: the rates of single kernels.
        entry: bytes of an entry of a product's factors.
        frequency: cycles of a core per second.
        network: the links for collectives; None if no system with the accelerator is known.
        cache: bytes of the cache that all cores share; 0 if it is not known.
        architecture: the name of the architecture.
        host_time_factor: the time that its host takes for Python, as a multiple of what an x86 server takes.
    """

    rates: Kernels
    entry: float
    frequency: float
    network: Network | None = None
    cache: float = 0.0
    architecture: str = ""
    host_time_factor: float = 1.0

    @property
    def generation(self) -> str:
        """The generation of the accelerator: the first word of its architecture."""
        return self.architecture.partition(" ")[0]

    @property
    def core_bandwidth(self) -> Any:
        """The bytes per second that all cores together move when they rearrange rows, if memory does not limit them."""
        return self.rates.products.tiles.cores * self.frequency * BYTES_PER_CYCLE

    @property
    def cores(self) -> Cores:
        """What the laws of scans and of sparse attention take from the accelerator.

        Benchmarks find bytes in its shared cache.
        """
        products, bandwidth = self.rates.products, self.rates.streams.bandwidth
        found = partial(share_of_traffic, cache=self.cache, bandwidth=bandwidth, core_bandwidth=self.core_bandwidth)
        return Cores(products.tiles.cores, self.frequency, 2.0 / products.batched_time, bandwidth, found)


def operator_time(kernel: Operator, machine: Predictor) -> Any:
    """The predicted time of a kernel, in seconds."""
    return kernel_time(kernel, machine.rates)  # type: ignore[no-untyped-call]


def share_of_traffic(needed: Any, cache: float, bandwidth: Any, core_bandwidth: Any) -> Any:
    """The time to move bytes, as a share of the time from memory, in a benchmark that runs one shape again and again.

    The benchmark finds all bytes in the shared cache if the `needed` bytes of its tensors fit in there, and none if
    they need twice as much room. Found bytes move as fast as cores move them, but no slower than memory does.

    Args:
        needed: the bytes of the benchmark's tensors.
        cache: the bytes of the shared cache.
        bandwidth: the bytes per second of the memory.
        core_bandwidth: the bytes per second that all cores move.

    Source: ai-dynamo/aiconfigurator, collector/trtllm/collect_moe.py and collect_attn.py (one set of weights and inputs
    for all runs).
    """
    share_found = np.clip(2.0 * cache / needed - 1.0, 0.0, 1.0)
    return 1.0 - share_found * np.maximum(1.0 - bandwidth / core_bandwidth, 0.0)


def tool_name(columns: Columns) -> str:
    """The name of the software without its version: the first word; empty if there is no such column."""
    return str(columns["software"][0]).partition(" ")[0] if "software" in columns else ""


def floats(column: Any) -> Array:
    """A column as numbers."""
    return np.asarray(column, dtype=np.float64)


def texts(column: Any) -> NDArray[np.str_]:
    """A column as texts."""
    return np.asarray(column, dtype=np.str_)
