"""The options that describe an encoder layer and the peak rates of a device; several verbs share them."""

from __future__ import annotations

from typing import Any, Literal

from amped.base.errors import ConfigError
from amped.cli import options
from amped.tables.table_files import ACCELERATORS

Attention = Literal["explicit", "sdpa"]


def layer(batch: int = 8, seq: int = 512, heads: int = 16, hidden: int = 1024, ffn: int = 0) -> Any:
    """The sizes of the layer (`amped.kernels.tensor_layouts.spec.Dimensions`).

    Options:
        --batch -b N: Sequences in a batch.
        --seq -l N: Tokens in a sequence.
        --heads N: Attention heads.
        --hidden N: Width of the layer.
        --ffn N: Feed-forward width; 0: four times hidden.
    """
    from amped.kernels.layer_shape import Dimensions

    return Dimensions(batch, seq, heads, hidden, ffn)


def device(
    accelerator: str | None = None,
    peak_flop_rate: str | None = None,
    memory_bandwidth: str | None = None,
    word_bytes: float = 2.0,
    lookup_tables: options.Folders = None,
) -> Any:
    """The peak rates of the device (`amped.kernels.tensor_layouts.cost.Device`), or None.

    Raises:
        ConfigError: if only one of the two is given, or one is not above 0.

    Options:
        --accelerator ROW: Its peaks bound the time of operators.
        --peak-flop-rate RATE: Instead of the accelerator's: "0.78 PFLOP/s".
        --memory-bandwidth RATE: Instead of the accelerator's: "4.3 TB/s".
        --word-bytes N 0.125..: Bytes of a word.
    """
    from amped.base.units import parse
    from amped.kernels.tensor_layouts.cost import Device

    if accelerator is not None:
        row = options.user_tables(lookup_tables).row(ACCELERATORS, accelerator)
        peak_flop_rate = peak_flop_rate or row.column("fp16_peak_flop_rate")
        memory_bandwidth = memory_bandwidth or row.column("memory_bandwidth")
    if not (peak_flop_rate or memory_bandwidth):
        return None
    if not (peak_flop_rate and memory_bandwidth):
        missing = "memory-bandwidth" if peak_flop_rate else "peak-flop-rate"
        raise ConfigError(f"--{missing} is missing", "give both ceilings, or --accelerator")
    flop_rate, bandwidth = parse(peak_flop_rate, "flop/s"), parse(memory_bandwidth, "byte/s")
    for name, rate in (("peak-flop-rate", flop_rate), ("memory-bandwidth", bandwidth)):
        if rate <= 0:
            raise ConfigError(f"--{name} is {rate:g}", "give a rate above 0, as in its --help")
    return Device(flop_rate, bandwidth, word_bytes)
