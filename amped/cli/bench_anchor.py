"""`amped bench anchor`: one layer of a network, measured on this device, for `amped calibrate --anchor`."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from amped.base.commands import command
from amped.base.errors import ConfigError, FileError, did_you_mean
from amped.base.files import write_atomically
from amped.base.version import __version__
from amped.cli import options
from amped.cli.bench_fit import command_line
from amped.kernels.formats import FORMATS
from amped.theory.language.quantity import MAPPING

if TYPE_CHECKING:
    from amped.estimation.estimation import Estimation
    from amped.kernels.layer_shape import Shape

# The software that plain torch is, if nobody names one.
PLAIN = "PyTorch"
SIZES = ("dimensionality", "attention_heads", "key_value_heads", "head_dimension", "feedforward_dimension", "context", "microbatch_size",
         "vocabulary_size", "tensor_parallel_degree")  # fmt: skip
SWITCHES = ("gated_mlp", "causal", "flash_attention", "tied_embeddings")
EXPERTS = ("number_of_experts", "experts_per_token", "number_of_shared_experts", "expert_feedforward_dimension")
STORED = [f"{what}_precision" for what in ("weight", "activation", "gradient", "optimizer_state")]
# What a layer alone does not have.
ALONE = {"layers": 1, **dict.fromkeys([f"{kind}_parallel_degree" for kind in ("data", "pipeline", "context", "expert")], 1),
         "sequence_parallel": False, "activation_recomputation": "none", "zero_stage": 0, "gradient_clipping": False}  # fmt: skip


@options.with_scenario
def anchor(
    asked: options.Scenario,
    device: str | None = None,
    dtype: str | None = None,
    row: str | None = None,
    module: str | None = None,
    seconds: float = 3.0,
    output: Path = Path("anchor.json"),
) -> None:
    """Measure one layer of the config's network on this device: forward, backward and the optimizer's step.

    With --tp N it is one of N shards, without the messages between them. It is plain PyTorch, or with --module what your
    own function makes: it gets the sizes by name (hidden, ffn, heads, key_value_heads, head_dimension, seq, batch,
    dtype, device ...) and returns a torch.nn.Module that takes and returns (batch, seq, hidden). `amped calibrate
    --anchor FILE` then makes the coefficients of this accelerator and software.

    Example: amped bench anchor --model "GPT-2 small" --mbs 1 --seq 512 -o anchor.json

    Options:
        --device: cpu or cuda; a GPU where there is one.
        --dtype FORMAT: fp32, bf16 or fp16.
        row --device-row ROW: The device's row of accelerators.
        --module FILE:FUNCTION: A function that makes your layer; it is run.
        --seconds 0.1..: Time for each part of the step.
        --output -o FILE: File of the anchor.
    """
    from amped.kernels import anchoring, bench_run
    from amped.kernels.running import timer_of
    from amped.kernels.torch_import import chosen_device, chosen_format

    options.refuse_unwritable(output, "--output")
    where, make = chosen_device(device), _function(module)
    dtype, result = chosen_format(dtype, where), bench_run.prepared(where, 1, __version__)
    shape, settings = _layer(asked, dtype, plain=make is None)
    tables = options.user_tables(asked.question.lookup_tables)
    layer = anchoring.own(shape, where, make) if make else anchoring.plain(shape, where, settings["flash_attention"])
    measured = anchoring.anchored(layer, timer_of(result), seconds)
    products = sum(kinds["products"] for kinds in measured["parts"].values())
    rows = anchoring.rows_of(
        result, tables, row, dtype, 3 * shape.linear_flops / products, (command_line(), __version__)
    )
    content = anchoring.content_of(measured, result, settings, rows, module or "")
    write_atomically(output, options.as_json(content) + "\n")
    times = ", ".join(f"{name} {1e3 * time:.4g} ms" for name, time in measured["seconds"].items())
    options.tell(f"{result['device']['name']}: {times}; written to {output}")
    options.tell(f"use it: {command('calibrate', '--anchor', output)}")


def _function(text: str | None) -> Callable[..., Any] | None:
    """The user's function, named as FILE:NAME; None if none is named.

    Raises:
        ConfigError: for text of another form.
        FileError: if the file cannot be run, or has no such function.
    """
    if text is None:
        return None
    from amped.configuring.scenario import python_file

    file, _, name = text.rpartition(":")
    if not (file and name):
        raise ConfigError(f"--module {text!r} names no function", "write FILE.py:FUNCTION")
    _, module = python_file(Path(file), "modules")
    if not callable(getattr(module, name, None)):
        raise FileError(f"has no function {name!r}", did_you_mean(name, list(vars(module))) or "write its name", file)
    return getattr(module, name)  # type: ignore[no-any-return]


def _layer(asked: options.Scenario, dtype: str, plain: bool) -> tuple[Shape, dict[str, Any]]:
    """The sizes of this device's shard of a layer, and the settings of an estimate of that shard.

    Raises:
        ConfigError: if the shards do not divide the heads or the width.
    """
    from amped.kernels.layer_shape import Shape

    e, software = _network(asked, plain)
    sizes, switches = {name: round(e[name]) for name in SIZES}, {name: bool(e[name]) for name in SWITCHES}
    experts = {name: round(e[name]) for name in EXPERTS} if e["number_of_experts"] > 1 else {}
    shards = sizes["tensor_parallel_degree"]
    heads, key_value_heads, ffn = (
        e[name] / shards for name in ("attention_heads", "key_value_heads", "feedforward_dimension")
    )
    if heads % 1 or ffn % 1:
        problem = f"--tp {shards} does not divide {e['attention_heads']:g} heads and a width of {e['feedforward_dimension']:g}"
        raise ConfigError(problem, "choose one that does")
    settings = {
        **sizes, **switches, **experts, "dropout": e["dropout"], **dict.fromkeys(STORED, 8 * FORMATS[dtype].bytes),
        "matrix_precision": FORMATS[dtype].short[0], **ALONE, "software": software,
        **dict.fromkeys(("number_of_accelerators", "number_of_accelerators_per_node"), shards),
        **dict.fromkeys(("batch_size", "samples"), sizes["microbatch_size"]),
    }  # fmt: skip
    shape = Shape(
        sizes["dimensionality"], int(ffn), int(heads), sizes["context"], sizes["microbatch_size"], dtype, e["dropout"],
        switches["causal"], max(1, int(key_value_heads)), sizes["head_dimension"], switches["gated_mlp"], biased=False, batch_first=True,
    )  # fmt: skip
    return shape, settings


def _network(asked: options.Scenario, plain: bool) -> tuple[Estimation, str]:
    """The estimate of the network's sizes, and the name of the measured software: PyTorch, if the user names none.

    Raises:
        ConfigError: for experts with the plain layer, and for latent attention.
    """
    from amped.configuring.scenario import asked_again

    whole = {"tensor_parallel_degree": 1} if asked.label == options.DEFAULT_CONFIG else {}
    asked = asked_again(asked.question, {"software": PLAIN, **whole, **asked.question.overrides})
    e = quantities(asked, *SIZES, *SWITCHES, *EXPERTS, "dropout")
    if plain and e["number_of_experts"] > 1:
        raise ConfigError("the plain layer has no experts", "give your own layer with --module FILE:FUNCTION")
    if asked.sources.choices.get("attention_kind") == "multi_latent":
        raise ConfigError("latent attention cannot be anchored", "anchor a network of the same width without it")
    return e, asked.sources.rows[MAPPING].name


def quantities(asked: options.Scenario, *names: str) -> Estimation:
    """An estimate of only these quantities of a config; whether its mapping can run does not matter."""
    from amped.engine.evaluate import run
    from amped.engine.resolve import plan
    from amped.estimation.estimation import Estimation

    return Estimation(asked, run(plan(asked.catalogue, names, asked.sources), asked.sources.given))
