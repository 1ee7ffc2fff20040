"""Attention to compressed keys (DeepSeek V4) and parallel residual streams in Megatron-LM's arguments.

Source: Megatron-LM (development branch of 2026), core/transformer/transformer_config.py (dsv4_hybrid, hyper-connections).
"""

from __future__ import annotations

from typing import Any

from amped.base.errors import ConfigError, Problem, quoted
from amped.interop.megatron_model import COMPRESSED_VARIANT, VARIANT, number_or_marks
from amped.interop.outgoing import Outgoing, Rule
from amped.interop.records import Reading

SPARSE, HEAVY = "number_of_sparsely_compressed_layers", "number_of_heavily_compressed_layers"
RATIOS = {SPARSE: "sparse_compression_ratio", HEAVY: "heavy_compression_ratio"}
# The tokens of an entry that an indexer chooses, and those of an entry that all queries see. Source: DeepseekV4Config.
OF_SPARSE, OF_HEAVY = 4, 128
LIKE = "([0,0]+[4,128]*20+[4])"
# The argument of each size.
SIZES = {"query_latent_dimension": "q_lora_rank", "head_dimension": "v_head_dim", "rotary_head_dimension": "qk_pos_emb_head_dim",
         "output_groups": "o_groups", "output_latent_dimension": "o_lora_rank"}  # fmt: skip
WINDOW = "csa_window_size"
# What latent attention of other networks has, which this one has not.
LATENT = ("key_value_latent_dimension", "value_head_dimension")


def read_compressed(reading: Reading) -> dict[str, Any]:
    """Reads the layers and sizes of attention to compressed keys; empty if the network has none."""
    if reading.raw.get(VARIANT) != COMPRESSED_VARIANT:
        return {}
    for name in LATENT:
        reading.values.pop(name, None)
    reading.get("csa_compress_rotary_base", "positions")
    layers, ratios = int(reading.values["layers"]), _ratios(reading)
    values = {quantity: reading.needed(name, quantity) for quantity, name in SIZES.items()}
    counts = {SPARSE: ratios.count(OF_SPARSE), HEAVY: ratios.count(OF_HEAVY)}
    windows = {"attention_window": reading.needed(WINDOW, "attention_window"), "number_of_windowed_layers": layers}
    fixed = {"attention_kind": "compressed", "key_value_heads": 1, "attention_sinks": True}
    return {**values, **counts, RATIOS[SPARSE]: OF_SPARSE, RATIOS[HEAVY]: OF_HEAVY, **windows, **fixed}


def _ratios(reading: Reading) -> list[int]:
    """The tokens of an entry of each layer; further ones are those of modules for further tokens.

    Raises:
        ConfigError: for fewer than there are layers, or other numbers than 0, 4 and 128.
    """
    name, layers = "csa_compress_ratios", int(reading.values["layers"])
    written, place = reading.get(name, SPARSE, []), reading.place(name)
    ratios = number_or_marks(written, place, (0, OF_SPARSE, OF_HEAVY), LIKE)
    ratios = ratios[:layers] if isinstance(ratios, list) else [ratios]
    if len(ratios) < layers:
        raise ConfigError(Problem(f"{quoted(written)} is for fewer than the {layers} layers", place, f"like {LIKE}"))
    return ratios


def write_compressed(out: Outgoing) -> None:
    """Writes the layers and sizes of attention to compressed keys; nothing if the network has none."""
    if out["attention_kind"] != "compressed":
        return
    why = "attention to compressed keys"
    ratios = tuple(out[name] for name in RATIOS.values())
    if ratios != (OF_SPARSE, OF_HEAVY):
        out.lose(
            RATIOS[SPARSE], f"entries of {ratios[0]} and {ratios[1]} tokens; Megatron-LM has {OF_SPARSE} and {OF_HEAVY}"
        )
    sizes = {name: out[quantity] for quantity, name in SIZES.items()}
    out.write(
        why,
        **{VARIANT: COMPRESSED_VARIANT, WINDOW: out["attention_window"]},
        csa_compress_ratios=_written(out),
        **sizes,
    )


def _written(out: Outgoing) -> str:
    """The tokens of an entry of each layer: windows alone first, then what has no partner, then both kinds in turn."""
    sparse, heavy, layers = out[SPARSE], out[HEAVY], out["layers"]
    turns = max(min(heavy, sparse - 1), 0)
    first = [0] * (layers - sparse - heavy) + [OF_HEAVY] * (heavy - turns) + [OF_SPARSE] * (sparse - turns - 1)
    return f"({first}+[{OF_SPARSE},{OF_HEAVY}]*{turns}+[{OF_SPARSE}])".replace(" ", "") if sparse else str(first)


def read_streams(reading: Reading) -> dict[str, Any]:
    """Reads parallel residual streams (hyper-connections); empty if the network has none."""
    if not reading.flag("enable_hyper_connections", "residual_streams"):
        return {}
    return {
        "residual_streams": reading.number("num_residual_streams", "residual_streams", 4),
        "sinkhorn_iterations": reading.number("mhc_sinkhorn_iterations", "sinkhorn_iterations", 20),
    }


def write_streams(out: Outgoing) -> None:
    """Writes parallel residual streams; nothing if the network has one stream."""
    streams = out["residual_streams"] or 1
    if streams > 1:
        sizes = {"num_residual_streams": streams, "mhc_sinkhorn_iterations": out["sinkhorn_iterations"]}
        out.write("parallel residual streams", enable_hyper_connections=True, **sizes)


RULES = {"compressed": Rule(read_compressed, write_compressed), "streams": Rule(read_streams, write_streams)}
