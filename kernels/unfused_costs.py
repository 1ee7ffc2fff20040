"""What a kernel's entries cost beside additions and products, and the traffic of what torch runs as several kernels."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from amped.kernels.specs import BYTES

# Exponentials, roots and quotients of an entry: tanh and sigmoid are an exponential and a quotient; AdamW has a root and two
# quotients. Source: definitions; arXiv 1412.6980, algorithm 1.
FUNCTIONS = {"softmax": 1, "gelu": 2, "gelu_backward": 2, "swiglu": 2, "bias_gelu_dropout": 2, "cross_entropy": 1,
             "cross_entropy_backward": 1, "adamw": 3}  # fmt: skip
# Random numbers that an entry draws.
DRAWN = {"dropout": 1, "bias_gelu_dropout": 1}
# Tensors that pass through memory where torch has no kernel for the whole, on every device and on processors. Source: what
# torch 2.13 dispatches, of which a sparse loss reads rows only, and what draws random numbers writes only.
PASSES = {"swiglu": 5, "cross_entropy_backward": 4}
ON_PROCESSORS = {"rms_norm": 7, "rms_norm_backward": 23, "dropout": 6, "bias_gelu_dropout": 10}


def entries(record: Mapping[str, Any]) -> float:
    """Entries that a kernel works on row by row, or parameters that it updates."""
    p = record["params"]
    return float(p["rows"] * p["columns"]) if "rows" in p else float(p.get("parameters", 0))


def evaluated(record: Mapping[str, Any]) -> float:
    """Exponentials, roots and quotients of a call."""
    return FUNCTIONS.get(record["kernel"], 0) * entries(record)


def drawn(record: Mapping[str, Any]) -> float:
    """Random numbers of a call."""
    return DRAWN.get(record["kernel"], 0) * entries(record)


def moved(record: Mapping[str, Any], device: str) -> float:
    """Bytes that a call moves: those that must, or those of all the kernels that torch runs for it."""
    passes = PASSES | (ON_PROCESSORS if device == "cpu" else {})
    own = passes.get(record["kernel"])
    return float(record["bytes"]) if own is None else own * BYTES[record["dtype"]] * entries(record)
