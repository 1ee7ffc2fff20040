"""The options that describe an encoder layer and the peak rates of a device; several verbs share them."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from typer import Option

from amped.base.errors import ConfigError
from amped.cli.options import TablesOption

Attention = Literal["explicit", "sdpa"]
AttentionOption = Annotated[Attention, Option("--attention", help="Scores in memory, or fused attention.")]


def layer(
    batch: Annotated[int, Option("--batch", "-b", metavar="N", help="Sequences in a batch.")] = 8,
    seq: Annotated[int, Option("--seq", "-l", metavar="N", help="Tokens in a sequence.")] = 512,
    heads: Annotated[int, Option("--heads", metavar="N", help="Attention heads.")] = 16,
    hidden: Annotated[int, Option("--hidden", metavar="N", help="Width of the layer.")] = 1024,
    ffn: Annotated[int, Option("--ffn", metavar="N", help="Feed-forward width; 0: four times hidden.")] = 0,
) -> Any:
    """The sizes of the layer (`amped.kernels.tensor_layouts.spec.Dimensions`)."""
    from amped.kernels.layer_shape import Dimensions

    return Dimensions(batch, seq, heads, hidden, ffn)


def device(
    accelerator: Annotated[str | None, Option(metavar="ROW", help="Its peaks bound the time of operators.")] = None,
    peak_flop_rate: Annotated[
        str | None, Option(metavar="RATE", help='Instead of the accelerator\'s: "0.78 PFLOP/s".')
    ] = None,
    memory_bandwidth: Annotated[
        str | None, Option(metavar="RATE", help='Instead of the accelerator\'s: "4.3 TB/s".')
    ] = None,
    word_bytes: Annotated[float, Option(metavar="N", help="Bytes of a word.", min=0.125)] = 2.0,
    lookup_tables: TablesOption = None,
) -> Any:
    """The peak rates of the device (`amped.kernels.tensor_layouts.cost.Device`), or None.

    Raises:
        ConfigError: if only one of the two is given, or one is not above 0.
    """
    from amped.base.units import parse
    from amped.kernels.tensor_layouts.cost import Device
    from amped.tables.table_files import ACCELERATORS
    from amped.tables.tables import user_tables

    if accelerator is not None:
        row = user_tables(lookup_tables).row(ACCELERATORS, accelerator)
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
