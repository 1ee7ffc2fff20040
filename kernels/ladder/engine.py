"""NVIDIA's own layer, if Transformer Engine can be imported."""

from __future__ import annotations

import importlib
from contextlib import AbstractContextManager
from typing import Any

from amped.kernels.ladder.climbing import Rung, Unavailable
from amped.kernels.layer_shape import Shape
from amped.kernels.torch_import import torch


def autocast(engine: Any, enabled: bool) -> AbstractContextManager[Any]:
    """The fp8 context: `autocast(enabled, recipe)`, called `fp8_autocast(enabled, fp8_recipe)` in older versions."""
    context = engine.autocast if hasattr(engine, "autocast") else engine.fp8_autocast
    return context(enabled=enabled)


def engine_rung(s: Shape, device: str) -> Rung:
    """The rung that runs Transformer Engine's own layer in fp8.

    The layer has its own parameters, so that its output is not compared with that of the first rung.

    Raises:
        Unavailable: without Transformer Engine or without a GPU.
    """
    try:
        engine = importlib.import_module("transformer_engine.pytorch")
    except Exception as error:  # builds for another torch fail in many ways
        raise Unavailable(f"transformer_engine cannot be imported ({type(error).__name__})") from None
    if device != "cuda":
        raise Unavailable("transformer_engine needs a GPU")
    layer = engine.TransformerLayer(
        s.hidden, s.ffn, s.heads, hidden_dropout=s.dropout, attention_dropout=s.dropout,
        self_attn_mask_type="causal" if s.causal else "no_mask", params_dtype=getattr(torch, s.dtype),
    )  # fmt: skip
    return Rung(layer, lambda: autocast(engine, enabled=True), is_fp8=True, shares_parameters=False)
