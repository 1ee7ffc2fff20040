"""Layers of linear attention in Megatron-LM's arguments: patterns of single blocks, and gated delta nets beside attention.

Source: Megatron-LM, training/arguments.py (hybrid, linear attention) and core/transformer/transformer_config.py.
"""

from __future__ import annotations

from typing import Any

from amped.base.errors import ConfigError, Problem, quoted
from amped.configuring.layout_text import Pattern, as_pattern, read_blocks
from amped.interop.huggingface_linear import BLOCKS, COUNTS
from amped.interop.megatron_model import number_or_marks
from amped.interop.outgoing import Outgoing, Rule
from amped.interop.records import Reading

KIND, LAYERS, PATTERN = "linear_attention_kind", "number_of_linear_attention_layers", "linear_layer_pattern"
# The arguments of a pattern; the newer one also has the layers of modules for further tokens, behind strokes.
PATTERNS = ("hybrid_layer_pattern", "hybrid_override_pattern")
# The argument of each size of Mamba-2, and its default; chunks have 128 tokens.
MAMBA = {
    "linear_value_heads": ("mamba_num_heads", None), "linear_value_head_dimension": ("mamba_head_dim", 64),
    "linear_key_head_dimension": ("mamba_state_dim", 128), "linear_key_heads": ("mamba_num_groups", 8),
}  # fmt: skip
MAMBA_CHUNK, EXPANSION = 128, 2
DELTA = {
    "linear_key_heads": "linear_num_key_heads", "linear_value_heads": "linear_num_value_heads", "linear_key_head_dimension": "linear_key_head_dim",
    "linear_value_head_dimension": "linear_value_head_dim", "linear_convolution_width": "linear_conv_kernel_dim",
}  # fmt: skip


def read_linear(reading: Reading) -> dict[str, Any]:
    """Reads which layers have linear attention, and its sizes; empty if no layer has one."""
    written = next((name for name in PATTERNS if reading.raw.get(name)), None)
    if written is not None:
        return _read_blocks(reading, written)
    if reading.raw.get("experimental_attention_variant") != "gated_delta_net":
        return {}
    reading.get("experimental_attention_variant", KIND)
    layers, place = int(reading.values["layers"]), reading.place("linear_attention_freq")
    marks = number_or_marks(reading.get("linear_attention_freq", PATTERN, 4), place)
    if not isinstance(marks, list):
        marks = [int((layer + 1) % int(marks) > 0) for layer in range(layers)]
    sizes = {quantity: reading.needed(name, quantity) for quantity, name in DELTA.items() if name in reading.raw}
    counted = {LAYERS: sum(marks), "number_of_attention_layers": layers - sum(marks)}
    return {KIND: "gated_delta_net", **counted, PATTERN: as_pattern(marks), **sizes}


def _read_blocks(reading: Reading, name: str) -> dict[str, Any]:
    """Reads a pattern of single blocks, one for each layer.

    Raises:
        ConfigError: for other letters, or another number of layers.
    """
    text = str(reading.get(name, BLOCKS)).partition("/")[0]
    letters = read_blocks(name, text).letters
    for flag in ("is_hybrid_model", "spec"):
        reading.get(flag, BLOCKS)
    if len(letters) != reading.values["layers"]:
        what = f"{quoted(text)} lists {len(letters)} layers, and --num-layers says {reading.values['layers']}"
        raise ConfigError(Problem(what, reading.place(name), "list as many"))
    sizes = {quantity: reading.number(key, quantity) or default for quantity, (key, default) in MAMBA.items()}
    width = EXPANSION * int(reading.values["dimensionality"])
    sizes["linear_value_heads"] = sizes["linear_value_heads"] or width // int(sizes["linear_value_head_dimension"] or 1)
    values: dict[str, Any] = {counted: letters.count(letter) for letter, counted in COUNTS.items()}
    values |= {BLOCKS: text, "norms_per_layer": 1, "mixture_layer_pattern": None}
    return values | ({KIND: "mamba2", "linear_chunk_tokens": MAMBA_CHUNK, **sizes} if "M" in letters else {})


def write_linear(out: Outgoing) -> None:
    """Writes layers of linear attention; nothing if the network has none."""
    kind = out[KIND]
    if kind == "none":
        return
    if out.values.get(BLOCKS) is not None and kind == "mamba2":
        named = {key: out[quantity] for quantity, (key, _) in MAMBA.items()}
        out.write("blocks of Mamba-2, attention and networks", hybrid_override_pattern=str(out[BLOCKS]), **named)
        return
    if kind != "gated_delta_net":
        out.lose(KIND, f"{kind} has no arguments in pretrain_gpt.py")
        return
    pattern = out.values.get(PATTERN)
    marks = Pattern(pattern).of(out["layers"]) if pattern else None
    every = out["layers"] // max(out["number_of_attention_layers"], 1)
    frequency: object = str([int(mark) for mark in marks]).replace(" ", "") if marks else every
    named = {key: out[quantity] for quantity, key in DELTA.items()}
    why = "gated delta nets beside attention"
    out.write(why, experimental_attention_variant="gated_delta_net", linear_attention_freq=frequency, **named)


RULES = {"linear": Rule(read_linear, write_linear)}
