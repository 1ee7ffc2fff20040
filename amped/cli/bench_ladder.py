"""`amped bench ladder`: one GPT layer from plain torch to fp8, measured and predicted."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from amped.base.errors import AmpedError
from amped.base.version import __version__
from amped.cli import options
from amped.kernels.formats import FORMATS
from amped.tables.table_files import LookupTables

if TYPE_CHECKING:
    from amped.kernels.layer_shape import Shape

# The rungs that amped's operators predict.
PREDICTED = ("eager", "functional", "sdpa", "compiled", "graph", "fp8_dynamic", "fp8_delayed")


@dataclass(frozen=True)
class Layer:
    """The sizes of the layer, as the options give them.

    Options:
        --hidden: Width of the layer.
        --ffn: Width of its feed-forward network.
        --heads: Attention heads.
        --seq: Tokens of a sequence.
        --batch: Sequences.
        --dropout: Share dropped out.
        causal --causal/--no-causal: Mask the future.
    """

    hidden: int = 4096
    ffn: int = 16384
    heads: int = 32
    seq: int = 2048
    batch: int = 4
    dropout: float = 0.1
    causal: bool = False


@options.bundled(layer=Layer)
def ladder(
    layer: Layer,
    device: str | None = None,
    dtype: str | None = None,
    rungs: str | None = None,
    warm_up: int = 10,
    passes: int = 20,
    accelerator: str | None = None,
    as_json: bool = False,
    plot: bool = False,
    output_dir: Path | None = None,
    lookup_tables: options.Folders = None,
) -> None:
    """Climb the layer ladder: one GPT layer as rungs that share parameters, each checked against the first and timed.

    Rungs: eager, functional, sdpa, compiled, graph, fp8_dynamic, fp8_delayed, transformer_engine.

    Example: amped bench ladder --hidden 256 --ffn 1024 --heads 4 --seq 128 --batch 2 --device cpu

    Options:
        --device: cpu or cuda; a GPU where there is one.
        --dtype FORMAT: fp32, bf16 or fp16.
        --rungs A,B,…: Only these rungs, by name.
        --warm-up 0..: Passes that do not count.
        --passes 1..: Passes that count.
        --accelerator ROW: Its row of accelerator_specifications.
        as_json --json: Print the rungs as JSON.
        --plot: Draw both times: ladder.png and .svg.
    """
    from amped.kernels.ladder.climbing import RUNGS, climbed
    from amped.kernels.layer_shape import Shape
    from amped.kernels.torch_import import chosen_device, chosen_format

    where = chosen_device(device)
    shape = Shape(**asdict(layer), dtype=chosen_format(dtype, where))
    expected, peak, name = _expected(shape, where, accelerator, lookup_tables)
    names = options.names(rungs) or RUNGS
    rows = [_tell_rung(row) for row in climbed(shape, where, names, expected, peak, warm_up, passes)]
    _show(rows, vars(shape), name, as_json)
    if plot:
        from amped.report.bench_plots import ladder_bars

        timed = [row for row in rows if row["ms"]]
        files = ((f"ladder.{suffix}", ladder_bars(timed, name, suffix)) for suffix in ("png", "svg"))
        options.write_and_tell(output_dir, *files)


def _tell_rung(row: dict[str, Any]) -> dict[str, Any]:
    """Prints the row of a rung as soon as the rung is measured, and returns the row."""
    options.tell(f"{row['rung']}: {row['skipped'] or format(row['ms'], '.2f') + ' ms'}")
    return row


def _expected(
    shape: Shape, device: str, accelerator: str | None, lookup_tables: LookupTables
) -> tuple[dict[str, float] | None, float | None, str]:
    """The predicted seconds of each rung, the peak rate of this device in flop/s, and the name of the device.

    The first two are None if no table has a row of the device; then the reason is printed.
    """
    from amped.kernels.bench_run import prepared
    from amped.kernels.machine import machine_of
    from amped.layers.ladder import layer_time
    from amped.measured_kernels.bench_results import processor_name

    tables, fresh = options.user_tables(lookup_tables), prepared(device, 1, __version__)
    name = str(fresh["device"]["name"])
    try:
        machine = machine_of(fresh, tables, accelerator, known_ones=True)
        sizes, has_fp8 = _sizes(shape), machine.peaks.get("float8_e4m3fn", 0.0) > 0
        rungs = (rung for rung in PREDICTED if has_fp8 or not rung.startswith("fp8"))
        expected = {rung: layer_time(machine.name, rung, lookup_tables, **sizes) for rung in rungs}
    except AmpedError as error:
        reason = str(error) if accelerator or device != "cpu" else f"no table has a row of {processor_name(fresh)}"
        advice = "" if accelerator or device != "cpu" else "; `amped bench run` and `amped bench fit` make one"
        options.tell(f"not predicted: {reason}{advice}")
        return None, None, name
    return expected, machine.peaks.get(shape.dtype) or max(machine.peaks.values()), name


def _sizes(shape: Shape) -> dict[str, Any]:
    """The settings of an estimate of the layer, by the names of parameters."""
    formats = dict.fromkeys(
        ("weight_precision", "activation_precision", "gradient_precision"), 8 * FORMATS[shape.dtype].bytes
    )
    return {
        "dimensionality": shape.hidden, "feedforward_dimension": shape.ffn, "attention_heads": shape.heads, "context": shape.seq,
        "microbatch_size": shape.batch, "dropout": shape.dropout, "causal": shape.causal, "matrix_precision": FORMATS[shape.dtype].short[0], **formats,
    }  # fmt: skip


def _show(rows: list[dict[str, Any]], shape: dict[str, Any], name: str, as_json: bool) -> None:
    """Prints the rungs, as a table or as JSON."""
    if as_json:
        options.show_json({"device": name, "shape": shape, "rungs": rows})
        return
    from amped.report.benching import ladder as table

    options.show(table(rows, f"{name}: {', '.join(f'{n} {v}' for n, v in shape.items())}"))
