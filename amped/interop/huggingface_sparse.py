"""Attention to a part of the keys in a config.json: to compressed keys (DeepSeek V4), and to chosen blocks (MiniMax M3)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from amped.interop.records import Reading

SPARSE, HEAVY, WINDOW = "compressed_sparse_attention", "heavily_compressed_attention", "sliding_attention"
# The tokens of an entry by which a config.json of DeepSeek says the kind of a layer. Source: DeepseekV4Config.
RATIOS = {0: WINDOW, 4: SPARSE, 128: HEAVY}
# The sizes of an indexer of blocks, and their keys in transformers and in the checkpoint's own section.
SIZES = {
    "indexer_heads": ("index_n_heads", "sparse_num_index_heads"),
    "indexer_head_dimension": ("index_head_dim", "sparse_index_dim"),
    "indexed_block_tokens": ("index_block_size", "sparse_block_size"),
    "indexed_keys": ("index_topk_blocks", "sparse_topk_blocks"),
}
WITHOUT_EFFECT = ("index_local_blocks", "sparse_local_block", "sparse_local_blocks", "sparse_init_block")


def with_kinds_of_layers(raw: Mapping[str, Any], family: Mapping[str, Any]) -> Mapping[str, Any]:
    """The keys of a file with the kind of attention of each layer, if it says them by the tokens of an entry."""
    ratios, layers = raw.get("compress_ratios"), raw.get("num_hidden_layers")
    if (
        not family.get("compressed")
        or raw.get("layer_types")
        or not isinstance(ratios, list)
        or not isinstance(layers, int)
    ):
        return raw
    return {**raw, "layer_types": [RATIOS.get(ratio, f"{ratio} tokens an entry") for ratio in ratios[:layers]]}


def read_compressed_keys(reading: Reading) -> dict[str, Any]:
    """Reads the layers and sizes of attention to compressed keys; empty if the network has none."""
    if not reading.family.get("compressed"):
        return {}
    kinds = [str(kind) for kind in reading.raw.get("layer_types") or ()]
    reading.get("compress_ratios", "number_of_sparsely_compressed_layers")
    rates = reading.get("compress_rates", "sparse_compression_ratio", {})
    ratios = {kind: rates.get(kind) for kind in (SPARSE, HEAVY)} if isinstance(rates, Mapping) else {}
    rotated = reading.number("qk_rope_head_dim", "rotary_head_dimension")
    share = reading.share("partial_rotary_factor", "rotary_head_dimension", 1.0)
    head = int(reading.values["head_dimension"])
    values = {
        "attention_kind": "compressed",
        "query_latent_dimension": reading.needed("q_lora_rank", "query_latent_dimension"),
        "rotary_head_dimension": rotated or int(head * share),
        "attention_window": reading.needed("sliding_window", "attention_window"),
        "number_of_windowed_layers": len(kinds),
        "number_of_sparsely_compressed_layers": kinds.count(SPARSE),
        "number_of_heavily_compressed_layers": kinds.count(HEAVY),
        "sparse_compression_ratio": ratios.get(SPARSE) or reading.number("compress_rate_csa", "sparse_compression_ratio"),
        "heavy_compression_ratio": ratios.get(HEAVY) or reading.number("compress_rate_hca", "heavy_compression_ratio"),
    }  # fmt: skip
    return {name: value for name, value in values.items() if value is not None}


def read_chosen_blocks(reading: Reading) -> dict[str, Any]:
    """Reads the layers with block-sparse attention and the sizes of their indexer; empty if no layer has it."""
    marks = reading.raw.get("layer_types") or reading.raw.get("sparse_attention_freq") or ()
    layers = sum(mark in (reading.family.get("blocks_of_keys"), 1, True) for mark in marks)
    if not reading.family.get("blocks_of_keys") or not layers:
        return {}
    reading.get("sparse_attention_freq", "number_of_sparse_attention_layers")
    for key in WITHOUT_EFFECT:
        reading.get(key, "indexed_keys")
    values = {}
    for quantity, keys in SIZES.items():
        key = next((name for name in keys if reading.raw.get(name) is not None), keys[0])
        values[quantity] = reading.needed(key, quantity)
    values["indexed_keys"] *= values["indexed_block_tokens"]
    kind = {"attention_kind": "grouped_query", "indexer_head_weights": False}
    return values | kind | {"number_of_sparse_attention_layers": layers}
