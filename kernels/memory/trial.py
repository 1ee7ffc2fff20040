"""A model of transformers with random weights, measured before and after it is converted: bytes, time, gradients."""

from __future__ import annotations

import copy
import json
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from amped.base.errors import ConfigError, did_you_mean
from amped.kernels.device import name_of, one_thread
from amped.kernels.memory.conversion import Choice, Policy, Report, convert
from amped.kernels.refusals import first_line
from amped.kernels.timers import timer_for
from amped.kernels.torch_import import chosen_device, chosen_format

# What configurations call the layers of an encoder-decoder's second half, which no other name covers.
_SECOND_STACK = ("decoder_layers", "num_decoder_layers")
# The seconds for timing a step, and the seed of weights, batch and dropouts.
_CAP, _SEED = 2.0, 0


@dataclass(frozen=True)
class Sizes:
    """What is built and run.

    Attributes:
        layers: the layers of each stack; None for as many as the configuration says.
        fields: further fields of the configuration, by name.
    """

    batch: int
    tokens: int
    layers: int | None
    fields: Mapping[str, Any]


@dataclass(frozen=True)
class Kind:
    """Equal choices of one technique.

    Attributes:
        module: the name of a module, without the numbers of layers.
        count: the number of such modules.
        saved_bytes: bytes that all of them save.
        added_time: seconds that all of them add to a step.
        refused: the reason why they stayed as they were; empty if they were converted.
    """

    technique: str
    module: str
    count: int
    saved_bytes: int
    added_time: float
    refused: str


@dataclass(frozen=True)
class Trial:
    """A model before and after its conversion.

    Attributes:
        batch: the shapes of the inputs by name.
        before_bytes, after_bytes: bytes kept for the backward pass.
        before_time, after_time: seconds of a forward and backward pass.
        gradient_difference: the largest norm of a difference between a parameter's gradients, as a share of the norm of
            the largest gradient.
        kinds: what was converted and what was not, equal choices together.
    """

    model: str
    parameters: int
    device: str
    dtype: str
    torch_version: str
    date: str
    batch: Mapping[str, tuple[int, ...]]
    before_bytes: int
    after_bytes: int
    target_bytes: float | None
    fits: bool
    before_time: float
    after_time: float
    gradient_difference: float
    kinds: tuple[Kind, ...]


def run_trial(named: str, sizes: Sizes, policy: Policy, device: str | None, dtype: str | None) -> Trial:
    """Builds a model, converts it, and measures it before and after.

    Formats of 16 bits run under autocast, with weights in fp32.

    Args:
        named: a model type of transformers ("bert"), or the path of a config.json.
        sizes: batch, tokens and layers.
        policy: the techniques, and the target.
        device: cpu or cuda; None for a GPU where there is one.
        dtype: a format of products; None for the usual one of the device.

    Raises:
        ConfigError: if transformers is missing, or the model cannot be built or run.
    """
    device = chosen_device(device)
    dtype = chosen_format(dtype, device)
    torch.manual_seed(_SEED)
    plain = _built(named, sizes).to(device).train()
    converted = copy.deepcopy(plain)
    batch = {name: tensor.to(device) for name, tensor in _batch(plain, sizes).items()}
    cast = partial(torch.autocast, device, getattr(torch, dtype), enabled=dtype != "float32")
    before, after = (partial(_gradients, model, batch, cast) for model in (plain, converted))
    with one_thread(device):
        exact = _first(before, named)
        with cast():
            report = convert(converted, policy, batch)
        difference = _difference(exact, after())
        times = [timing.best(device) for timing in timer_for(device).together([before, after], _CAP)]
    size = sum(parameter.numel() for parameter in plain.parameters())
    return Trial(
        model=type(plain).__name__, parameters=size, device=name_of(device), dtype=dtype, torch_version=torch.__version__,
        date=time.strftime("%Y-%m-%d"), batch={name: tuple(tensor.shape) for name, tensor in batch.items()},
        before_bytes=report.before_bytes, after_bytes=report.after_bytes, target_bytes=report.target_bytes,
        fits=report.fits, before_time=times[0], after_time=times[1], gradient_difference=difference, kinds=kinds_of(report),
    )  # fmt: skip


def _built(named: str, sizes: Sizes) -> nn.Module:
    """A model with random weights.

    Raises:
        ConfigError: if transformers is missing, or does not know the model or a field.
    """
    try:
        import transformers
    except ImportError:
        raise ConfigError(
            "a model of transformers is built, which is not installed", "pip install transformers"
        ) from None
    fields = _fields(named) | dict(sizes.fields)
    kind = fields.pop("model_type")
    if kind not in transformers.CONFIG_MAPPING:
        near = (
            did_you_mean(kind, list(transformers.CONFIG_MAPPING))
            or "give a model type (bert, llama, vit), or a config.json"
        )
        raise ConfigError(f"transformers {transformers.__version__} has no model type {kind!r}", near)
    try:
        config = transformers.AutoConfig.for_model(kind, **fields)
        _shorten(config, sizes.layers)
        model: nn.Module = transformers.AutoModel.from_config(config)
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise ConfigError(f"transformers builds no model {named!r}: {first_line(error)}",
                          "change fields of its configuration: --set num_attention_heads=4") from None  # fmt: skip
    return model


def _fields(named: str) -> dict[str, Any]:
    """The fields of a configuration: those of a file, or only the model type.

    Raises:
        ConfigError: if a file is no JSON object with a model type.
    """
    path = Path(named)
    if path.suffix != ".json" and not path.exists():
        return {"model_type": named}
    try:
        fields = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise ConfigError(f"{named}: {first_line(error)}", "give a config.json of transformers") from None
    if not isinstance(fields, dict) or "model_type" not in fields:
        raise ConfigError(f"{named}: no model_type", "give a config.json of transformers")
    return fields


def _shorten(config: Any, layers: int | None) -> None:
    """Gives each stack of a configuration this number of layers, and lists by layer the same length."""
    if layers is None:
        return
    before = config.num_hidden_layers
    for name in ("num_hidden_layers", *_SECOND_STACK):
        if hasattr(config, name):
            setattr(config, name, layers)
    for name, value in vars(config).items():
        if isinstance(value, list) and len(value) == before > layers:
            setattr(config, name, value[:layers])


def _batch(model: nn.Module, sizes: Sizes) -> dict[str, Tensor]:
    """Random words, or images for a model that takes images; the second half of an encoder-decoder has words, too."""
    config: Any = model.config
    words = torch.randint(0, getattr(config, "vocab_size", None) or 2, (sizes.batch, sizes.tokens))
    if model.main_input_name == "pixel_values":
        size = config.image_size
        return {"pixel_values": torch.randn(sizes.batch, getattr(config, "num_channels", 3), size, size)}
    return {"input_ids": words} | ({"decoder_input_ids": words} if config.is_encoder_decoder else {})


def _first(step: Callable[[], list[Tensor]], named: str) -> list[Tensor]:
    """The gradients of a first step.

    Raises:
        ConfigError: if the model does not run on the batch.
    """
    try:
        return step()
    except (RuntimeError, ValueError, TypeError, AttributeError) as error:
        raise ConfigError(f"{named} does not run on this batch: {first_line(error)}",
                          "fewer --seq or --batch; or convert it in Python: amped.kernels.memory.convert") from None  # fmt: skip


def _gradients(
    model: nn.Module, batch: Mapping[str, Tensor], cast: Callable[[], AbstractContextManager[Any]]
) -> list[Tensor]:
    """The gradients of all parameters, of a sum of the outputs with random factors; the dropouts of each call are equal."""
    torch.manual_seed(_SEED)
    with cast():
        output = model(**batch).last_hidden_state.float()
    factors = torch.randn(output.shape, generator=torch.Generator().manual_seed(_SEED)).to(output.device)
    leaves = [leaf for leaf in model.parameters() if leaf.requires_grad]
    gradients = torch.autograd.grad((output * factors).sum(), leaves, allow_unused=True)
    return [gradient for gradient in gradients if gradient is not None]


def _difference(exact: Sequence[Tensor], found: Sequence[Tensor]) -> float:
    """The largest norm of a difference, as a share of the largest norm."""
    largest = max(float(gradient.norm()) for gradient in exact)
    return max(float((a - b).norm()) for a, b in zip(exact, found, strict=True)) / largest


def kinds_of(report: Report) -> tuple[Kind, ...]:
    """The choices of a report, those of equal layers together, with the largest savings first."""
    groups: dict[tuple[str, str, str], list[Choice]] = {}
    for choice in (*report.taken, *report.refused):
        groups.setdefault((choice.technique, _without_numbers(choice.name), choice.refused), []).append(choice)
    kinds = (
        Kind(technique, module, len(each), sum(c.saved_bytes for c in each), sum(c.added_time for c in each), refused)
        for (technique, module, refused), each in groups.items()
    )
    return tuple(sorted(kinds, key=lambda kind: (bool(kind.refused), -kind.saved_bytes)))


def _without_numbers(name: str) -> str:
    """The name of a module with a star for the number of its layer."""
    return ".".join("*" if part.isdigit() else part for part in name.split("."))
