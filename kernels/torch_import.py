"""The door to torch: what runs kernels imports torch from here, so that a missing torch is told with what to install."""

from __future__ import annotations

import importlib.util
from collections.abc import Sequence

from amped.base.errors import ConfigError, did_you_mean
from amped.kernels.formats import FORMATS, TRAINED
from amped.kernels.refusals import first_line, refuse_unknown

try:
    import torch as torch
except ImportError as error:
    told = "is not installed" if importlib.util.find_spec("torch") is None else f"cannot be loaded: {error}"
    raise ConfigError(f"measuring kernels needs PyTorch, which {told}", "pip install 'amped[torch]'") from None

DEVICES = ("cpu", "cuda")
# The names of formats in torch, by their short names.
NAMES = {short: name for name, known in FORMATS.items() for short in known.short}


def chosen_device(device: str | None) -> str:
    """The device to measure on: the given one, else a GPU if there is one.

    Raises:
        ConfigError: for an unknown device, and for a GPU if torch sees none.
    """
    if device is not None:
        refuse_unknown(device, DEVICES, f"--device {device!r} is not known")
    has_gpu = bool(torch.cuda.is_available())
    if device == "cuda" and not has_gpu:
        built = getattr(torch.version, "cuda", None)
        reason = "torch sees none" if built else f"torch {torch.__version__} is built without CUDA"
        raise ConfigError(f"there is no GPU to measure on: {reason}", "measure with --device cpu")
    return device or ("cuda" if has_gpu else "cpu")


def chosen_format(dtype: str | None, device: str, allowed: Sequence[str] = TRAINED) -> str:
    """The name of the chosen format in torch; by default, bf16 on GPUs and fp32 on CPUs.

    Raises:
        ConfigError: for an unknown format, and for one that products on this device cannot have.
    """
    name = NAMES.get(dtype or "", dtype or ("bfloat16" if device == "cuda" else "float32"))
    if name not in allowed:
        advice = (
            did_you_mean(name, allowed) or f"there are {', '.join(allowed)}; kernels of fp8 belong to the full suite"
        )
        raise ConfigError(f"--dtype {dtype!r} is not supported", advice)
    _try_product(name, device)
    return name


def _try_product(name: str, device: str) -> None:
    """Tries a small product in a format.

    Raises:
        ConfigError: if the device does not support it.
    """
    try:
        tensor = torch.ones(2, 2, dtype=getattr(torch, name), device=device)
        torch.mm(tensor, tensor)
    except RuntimeError as error:
        what = f"--dtype {name} is not supported on {device}: {first_line(error)}"
        raise ConfigError(what, "choose another --dtype") from None


def has_fp8(device: str) -> bool:
    """Whether the device itself multiplies fp8: NVIDIA GPUs from compute capability 8.9 on."""
    return device == "cuda" and torch.cuda.get_device_capability() >= (8, 9)
