"""`amped bench step`: real training steps of a small transformer, beside an estimate of them."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from amped.base.errors import ConfigError
from amped.base.version import __version__
from amped.cli import options
from amped.cli.bench_anchor import PLAIN, quantities
from amped.cli.bench_fit import coefficients_of
from amped.kernels.formats import FORMATS
from amped.theory.nouns.parallelisms import WRITTEN

if TYPE_CHECKING:
    from amped.tables.tables import Tables

# The aimed seconds of a step; and the rate that a machine without measurements is assumed to have.
SECONDS, UNKNOWN_RATE = 2.0, 5e10
MEMORY_SHARE = 0.4
# The device is alone, so that its node must have one accelerator, too; its network does not matter.
ALONE = ("number_of_accelerators", "number_of_accelerators_per_node")


@options.with_scenario
def step(
    asked: options.Scenario,
    device: str | None = None,
    dtype: str | None = None,
    steps: int = 4,
    seconds: float = SECONDS,
    as_json: bool = False,
) -> None:
    """Train a few real steps of the config's model, scaled to fit this device, and compare with an estimate.

    The model is made smaller (batch, layers, words, length, width) until a step takes about --seconds. The estimate is
    for that model in plain PyTorch, if --software names nothing else, with the device's row, which `amped bench fit`
    writes (for a processor, name its folder by --lookup-tables DIR). Memory is that of all tensors that are alive at
    once; the rest of the process is printed, too.

    Example: amped bench step --model "GPT-2 small" --device cpu --lookup-tables lookup_tables

    Options:
        --device: cpu or cuda; a GPU where there is one.
        --dtype FORMAT: fp32, bf16 or fp16.
        --steps 1..: Steps that count.
        --seconds 0.01..: Time of a step to scale the model to.
        as_json --json: Print both as JSON, SI units.
    """
    from amped.kernels import bench_run, stepping
    from amped.kernels.torch_import import chosen_device, chosen_format

    where = chosen_device(device)
    result, dtype = bench_run.prepared(where, 1, __version__), chosen_format(dtype, where)
    tables = options.user_tables(asked.question.lookup_tables)
    name = _accelerator(tables, result)
    network = stepping.Network(**_network(asked))
    rate = _rate(tables, name, dtype)
    scaled_model = stepping.scaled(network, MEMORY_SHARE * result["device"]["mem_bytes"], seconds * rate)
    software = str(asked.question.overrides.get("software", PLAIN))
    predicted = _estimate(asked, scaled_model, name, dtype, software)
    trained = stepping.trained(scaled_model, where, dtype, steps, lambda i, s: options.tell(f"step {i}: {s:.3f} s"))
    _show(asdict(scaled_model), trained, predicted, (str(result["device"]["name"]), software), as_json)


def _network(asked: options.Scenario) -> dict[str, Any]:
    """The sizes of a config's dense network and its micro-batch, by the names of `stepping.Network`.

    The mapping, and whether it can run, do not matter.

    Raises:
        ConfigError: if the network cannot be scaled.
    """
    names = ("layers", "dimensionality", "attention_heads", "key_value_heads", "feedforward_dimension", "vocabulary_size",
             "context")  # fmt: skip
    switches = ("gated_mlp", "tied_embeddings")
    sizes = quantities(asked, *names, *switches, "microbatch_size")
    network: dict[str, Any] = {name: round(sizes[name]) for name in names}
    if network["dimensionality"] % network["attention_heads"] or network["vocabulary_size"] < 1:
        raise ConfigError(
            "this network cannot be scaled: its heads or its words do not divide", "choose a dense decoder"
        )
    return (
        network
        | {"batch_size": max(1, round(sizes["microbatch_size"]))}
        | {name: bool(sizes[name]) for name in switches}
    )


def _accelerator(tables: Tables, result: dict[str, Any]) -> str:
    """The name of this device's row in the table of accelerators.

    Raises:
        ConfigError: if there is no such row.
    """
    from amped.kernels.machine import ACCELERATORS
    from amped.measured_kernels.bench_results import accelerator_name

    name = accelerator_name(result)
    if not tables.has(ACCELERATORS, name):
        raise ConfigError(f"no row of {ACCELERATORS} is of this device, {name!r}",
                          "measure and fit it first: amped bench run -o r.json, amped bench fit r.json -o DIR, then --lookup-tables DIR")  # fmt: skip
    return name


def _rate(tables: Tables, name: str, dtype: str) -> float:
    """A rough rate of training on the device in flop/s: half the rate that its largest products sustain."""
    from amped.kernels.machine import machine_of
    from amped.kernels.rows import base_row

    machine = machine_of({"device": {"name": name, "kind": "row"}}, tables, name)
    share = coefficients_of(tables, base_row(tables, machine.name, machine.known))[FORMATS[dtype].sustained]
    return 0.5 * machine.peaks.get(dtype, UNKNOWN_RATE) * share or UNKNOWN_RATE


def _estimate(asked: options.Scenario, scaled_model: Any, accelerator: str, dtype: str, software: str) -> Any:
    """The estimate for the scaled-down model on one device, with the settings of the measured step.

    These are AdamW, no dropout, and one number format for all tensors.
    """
    from amped.library import estimate

    degrees = [f"{kind}_parallel_degree" for kind in WRITTEN]
    formats = [f"{what}_precision" for what in ("weight", "activation", "gradient", "optimizer_state")]
    settings: dict[str, Any] = {
        **asdict(scaled_model), **dict.fromkeys((*degrees, *ALONE), 1), **dict.fromkeys(formats, 8 * FORMATS[dtype].bytes),
        "microbatch_size": scaled_model.batch_size, "samples": scaled_model.batch_size, "matrix_precision": FORMATS[dtype].short[0],
        "dropout": 0, "flash_attention": True, "gradient_clipping": False,
        "software": software,
    }  # fmt: skip
    return estimate({}, lookup_tables=asked.question.lookup_tables, accelerator=accelerator, **settings)


def _show(network: dict[str, Any], trained: Any, predicted: Any, names: tuple[str, str], as_json: bool) -> None:
    """Prints the measurement and the estimate of time and memory, and the error of each.

    `names` are those of the device and of the software.
    """
    pairs = {"step_time": (trained.least, predicted["step_time"]),
             "memory_bytes": (trained.memory.measured, predicted["memory_per_accelerator_bytes"])}  # fmt: skip
    if as_json:
        numbers = {what: {"measured": m, "predicted": p, "error": p / m - 1} for what, (m, p) in pairs.items()}
        details = {"step_times": trained.times, "losses": trained.losses, "memory": asdict(trained.memory)}
        options.show_json({"device": names[0], "software": names[1], "network": network, **numbers, **details})
        return
    from amped.report.benching import step as table

    options.show(table(", ".join(names), network, pairs, trained.losses, asdict(trained.memory)))
