"""What several keys of a config.json say together, a function for each topic.

A rule takes the file with the values so far and returns further values by quantity; None removes a value.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

from amped.base.errors import ConfigError, Problem, quoted
from amped.configuring.layout_text import as_pattern
from amped.interop.huggingface_branches import read_branches
from amped.interop.huggingface_linear import ATTENTIONS, is_linear, read_linear_attention
from amped.interop.huggingface_parts import BLOCK_LETTERS, mixtures, report_layers, report_part, report_parts
from amped.interop.huggingface_sparse import read_chosen_blocks, read_compressed_keys
from amped.interop.records import Reading, ReportLine, whole
from amped.interop.sizes import sum_of

Reader = Callable[[Reading], dict[str, Any]]
LONGEST = (
    "max_position_embeddings",
    "n_positions",
    "max_seq_len",
    "n_ctx",
    "seq_length",
    "model_max_length",
    "max_target_positions",
)
# Keys of the tokens that a windowed layer attends to.
WIDTHS = ("sliding_window", "attention_chunk_size", "window_size", "sliding_window_size", "attention_window_size")
# No factor of a width is as large.
FACTOR_BELOW = 1e6
# The tokens of a sequence in training where a file says only the longest one.
SEQUENCE = 4096
FULL = ("full_attention", "global", "full", "attention")
WINDOWED = ("sliding_attention", "local", "sliding", "chunked_attention")


def read_heads(reading: Reading) -> dict[str, Any]:
    """Reads the number of key-value heads and the width of a head.

    By default each query head has a key-value head, and all heads together are as wide as the residual stream.
    """
    values, query_heads, quantity = reading.values, reading.values["attention_heads"], "key_value_heads"
    groups = values.get(quantity, query_heads)
    if reading.flag("new_decoder_architecture", quantity):
        groups = reading.number("num_kv_heads", quantity, query_heads)
    elif reading.flag("multi_query", quantity):
        groups = 1
    return {quantity: groups, "head_dimension": values.get("head_dimension", values["dimensionality"] // query_heads)}


def read_latent_attention(reading: Reading) -> dict[str, Any]:
    """Reads the widths of multi-head latent attention; None for its quantities if the network has none.

    config.json gives the rotary part of a head apart from the rest; amped's width of a head is the sum.
    """
    if reading.values.get("key_value_latent_dimension") is None:
        return {"attention_kind": None, "query_latent_dimension": None}
    rotated_width = reading.needed("qk_rope_head_dim", "rotary_head_dimension")
    unrotated_width = reading.needed("qk_nope_head_dim", "head_dimension")
    reading.number("head_dim", "head_dimension")
    return {
        "attention_kind": "multi_latent", "rotary_head_dimension": rotated_width, "head_dimension": unrotated_width + rotated_width,
        "value_head_dimension": reading.number("v_head_dim", "value_head_dimension", unrotated_width),
        "query_latent_dimension": reading.values.get("query_latent_dimension") or 0,
        "key_value_heads": reading.values["attention_heads"],
    }  # fmt: skip


def read_indexers(reading: Reading) -> dict[str, Any]:
    """Reads how many layers have an indexer of their own; empty if all have, or if the network has none."""
    kinds = reading.words("indexer_types", "number_of_indexer_layers")
    if not kinds or "indexer_heads" not in reading.values:
        return {}
    return {"number_of_indexer_layers": kinds[: int(reading.values["layers"])].count("full")}


def report_value_heads(reading: Reading) -> dict[str, Any]:
    """Reports values whose width is not that of keys, without latent attention, as amped cannot express them. Returns no values."""
    width = reading.number("v_head_dim", "value_head_dimension")
    if reading.values.get("attention_kind") == "multi_latent" or width in (None, reading.values["head_dimension"]):
        return {}
    prefix = f"values of {width} beside keys of {reading.values['head_dimension']} without latent attention: "
    report_part(reading, "other_values", "v_head_dim", reading.values["layers"], prefix)
    return {}


def read_feedforward(reading: Reading) -> dict[str, Any]:
    """Reads the width of the dense feed-forward network.

    If the file gives no width, it is the width of the residual stream times a ratio in the file, or times four.
    """
    width = reading.values.get("feedforward_dimension")
    if width is not None:
        return _adjusted_width(reading, int(width))
    names = ("expansion_ratio", "intermediate_multiple_size")
    ratio = _first_number(reading, names, "feedforward_dimension", least=1) or 4
    if not reading.values.get("expert_feedforward_dimension"):
        reading.defaulted("feedforward_dimension", f"{ratio} times hidden size, as the model class has it")
    return {"feedforward_dimension": ratio * reading.values["dimensionality"]}


def _adjusted_width(reading: Reading, width: int) -> dict[str, Any]:
    """The width as {"feedforward_dimension": n}, if the model class changes the width in the file; else empty.

    RecurrentGemma takes a part of the width. LFM2 takes two thirds, times a factor, rounded up to a multiple.

    Raises:
        ConfigError: for a factor that is not a number above 0.
    """
    if divisor := reading.family.get("feedforward_divisor"):
        return {"feedforward_dimension": width // divisor}
    if not reading.flag("block_auto_adjust_ff_dim", "feedforward_dimension"):
        return {}
    factor = reading.get("block_ffn_dim_multiplier", "feedforward_dimension", 1)
    multiple = reading.number("block_multiple_of", "feedforward_dimension", 1, least=1)
    if isinstance(factor, bool) or not isinstance(factor, int | float) or not 0 < factor < FACTOR_BELOW:
        problem = Problem(
            f"{quoted(factor)} is no factor", reading.place("block_ffn_dim_multiplier"), "a number above 0"
        )
        raise ConfigError(problem)
    return {"feedforward_dimension": -(-int(factor * (2 * width // 3)) // multiple) * multiple}


def read_positions(reading: Reading) -> dict[str, Any]:
    """Reads the kind of positions, the rows of a table of learned positions, and the tokens of a sequence in training.

    config.json gives only the longest sequence. The sequence in training is that one, but at most 4096 tokens; the report says so.
    """
    longest = _first_number(reading, LONGEST, "context", least=1)
    patch_values = _values_of_patches(reading)
    context = patch_values.get("context", min(longest or SEQUENCE, SEQUENCE))
    values = {"context": context, **patch_values}
    if not reading.flag("learned_pos_emb", "positions", True) or reading.flag("alibi", "positions"):
        values["positions"] = "alibi"
    if patch_values:
        return values
    if reading.values.get("positions") == "learned" and "position_table" not in reading.values:
        values["position_table"] = (longest or SEQUENCE) + int(reading.family.get("position_offset", 0))
    reason = f"config.json says only the longest, {longest:,}" if longest else "config.json does not say it"
    reading.defaulted("context", f"{context:,} tokens of a sequence in training; {reason} (--seq changes it)")
    return values


def _first_number(reading: Reading, names: tuple[str, ...], quantity: str, least: int = 0) -> int | None:
    """The whole number of the first of some keys that has a value; None if none has. Refuses a number below `least`."""
    key = reading.first(names, quantity)
    return reading.number(key[0], quantity, least=least) if key else None


def _values_of_patches(reading: Reading) -> dict[str, Any]:
    """The tokens of an image (its patches and one class token) and the values of a patch, by quantity.

    Empty if the network takes no image.
    """
    size, patch = reading.number("image_size", "context"), reading.number("patch_size", "patch_values")
    if not size or not patch:
        return {}
    tokens = (size // patch) ** 2 + 1
    channels = reading.number("num_channels", "patch_values", 3) or 3
    return {"context": tokens, "position_table": tokens, "patch_values": patch * patch * channels}


def read_mixers(reading: Reading) -> dict[str, Any]:
    """Reads which layers have linear attention and which a window, with the sizes of both; empty if no layer has one.

    Kinds of attention that amped does not model are reported.
    """
    layers = int(reading.values["layers"])
    kinds = [reading.family.get("words", {}).get(kind, kind) for kind in _kinds_of_attention(reading, layers)]
    if beside := reading.family.get("beside"):
        return _windows(reading, kinds) | read_linear_attention(reading, [beside] * layers) | {ATTENTIONS: layers}
    linear = [kind for kind in kinds if is_linear(reading, kind)]
    absent = ["absent_attention"] if reading.raw.get(BLOCK_LETTERS) else []
    report_layers(reading, "layer_types", kinds, (*FULL, *WINDOWED, *linear, *absent), "unknown_mixer")
    report_parts(reading, kinds)
    return read_linear_attention(reading, kinds) | _windows(reading, kinds)


def _windows(reading: Reading, kinds: Sequence[str]) -> dict[str, Any]:
    """The width of the attention window and the number of layers with a window; empty if no layer has one."""
    layers = int(reading.values["layers"])
    widths = [reading.number(name, "attention_window") for name in WIDTHS if reading.raw.get(name) not in (None, False)]
    width = next(filter(None, widths), None)
    if not width or not reading.flag("use_sliding_window", "attention_window", True):
        return {}
    chunked = kinds.count("chunked_attention")
    if chunked and reading.values["context"] > width:
        reading.unsupported("attention_chunk_size", f"{chunked} layers attend in chunks of {width:,}, read as windows")
    windowed_layers = sum(kind in WINDOWED for kind in kinds) if kinds else _number_of_windowed_layers(reading, layers)
    return {"attention_window": width, "number_of_windowed_layers": windowed_layers} if windowed_layers else {}


# Keys of heads that all layers without a window may have otherwise, and amped's names of them.
OF_FULL_LAYERS = {"head_dim": "full_attention_head_dimension", "num_key_value_heads": "full_attention_key_value_heads"}


def _heads_of_full_layers(reading: Reading) -> dict[str, Any]:
    """The heads of layers without a window, if exactly these have another width or number of key heads; else empty."""
    rows, kinds = reading.raw.get("per_layer_config"), reading.raw.get("layer_types")
    if not isinstance(rows, Mapping) or not rows or not isinstance(kinds, list):
        return {}
    full = {place for place, kind in enumerate(kinds[: int(reading.values["layers"])]) if kind in FULL}
    listed, (first, *others) = {int(place) for place in rows if str(place).isdigit()}, rows.values()
    alike = isinstance(first, Mapping) and all(row == first for row in others)
    if listed != full or not alike or not first.keys() <= OF_FULL_LAYERS.keys():
        return {}
    values = {OF_FULL_LAYERS[key]: whole(size, reading.place("per_layer_config")) for key, size in first.items()}
    widest = values.get("full_attention_head_dimension", reading.values["head_dimension"])
    if widest < reading.values["head_dimension"]:
        return {}
    reading.get("per_layer_config", ", ".join(values))
    return values


def read_heads_of_layers(reading: Reading) -> dict[str, Any]:
    """Reads the heads of layers without a window; other layers with heads of their own are reported.

    The report has the largest ratio to the usual number or width of heads.
    """
    if values := _heads_of_full_layers(reading):
        return values
    usual_heads = reading.values["attention_heads"]
    head_counts = reading.counts("num_attention_heads_per_layer", "not_modeled")
    ratios = [heads / usual_heads for heads in head_counts if heads != usual_heads]
    layers = reading.get("per_layer_config", "not_modeled", {})
    if isinstance(layers, Mapping):
        ratios += [max(_ratios(reading, row), default=1.0) for row in layers.values() if isinstance(row, Mapping)]
    other = reading.get("attention_other_setting", "not_modeled", {})
    if isinstance(other, Mapping) and other:
        ratios += [max(_ratios(reading, other), default=1.0)] * reading.raw.get("layer_types", []).count(
            other.get("attention_type")
        )
    if ratios:
        keys = ("num_attention_heads_per_layer", "attention_other_setting")
        key = next((name for name in keys if reading.raw.get(name)), "per_layer_config")
        report_part(replace(reading, values={**reading.values, "ratio": max(ratios)}), "own_heads", key, len(ratios))
    return {}


def _ratios(reading: Reading, layer: Mapping[str, Any]) -> Iterator[float]:
    """The ratio of each number of a layer to the network's number, at least 1.0.

    Args:
        reading: the file, with the network's numbers; a number that it does not have counts as 1.
        layer: the keys of one layer with their values.
    """
    for name, value in layer.items():
        network_value = reading.raw.get(name) or 1
        if all(isinstance(number, int | float) and number > 0 for number in (network_value, value)):
            yield max(value / network_value, 1.0)


def _kinds_of_attention(reading: Reading, layers: int) -> list[str]:
    """The kind of attention of each layer, such as "full_attention", as words of the file.

    The file lists the kinds, or gives places, an interval or groups. Empty if it has none of these.
    """
    places = reading.family.get("places", {})
    for name in ("layer_types", "attention_layers", "layers_block_type"):
        kinds = reading.words(name, "number_of_windowed_layers") if name in reading.raw else None
        if kinds:
            reading.get("attention_types", "number_of_windowed_layers")
            return kinds[:layers]
    if places:
        return _kinds_from_places(reading, places, layers)
    interval = reading.number("full_attention_interval", "number_of_windowed_layers")
    if interval:
        return ["linear_attention" if (layer + 1) % interval else "full_attention" for layer in range(layers)]
    return _kinds_from_groups(reading, layers)


def _kinds_from_places(reading: Reading, places: Mapping[str, str], layers: int) -> list[str]:
    """The kind of each layer in a family whose keys say which layers have attention.

    Args:
        reading: the file.
        places: the names of these keys: `pattern` (kinds that repeat), `period` and `offset`, or `listed` (indices of layers); and
            `otherwise`, the kind of all other layers.
        layers: the number of layers.
    """
    quantity = "number_of_windowed_layers"
    if "pattern" in places:
        pattern = reading.words(places["pattern"], quantity)
        return [pattern[layer % len(pattern)] for layer in range(layers)] if pattern else []
    if "period" in places:
        period = reading.number(places["period"], quantity, least=1)
        offset = reading.number(places["offset"], quantity)
        attention_layers: Container[int] = (
            range(offset, layers, period) if period and offset is not None and offset < period else ()
        )
    else:
        attention_layers = reading.counts(places["listed"], quantity)
    return [FULL[0] if layer in attention_layers else places.get("otherwise", "") for layer in range(layers)]


def _kinds_from_groups(reading: Reading, layers: int) -> list[str]:
    """The kind of attention of each layer from groups of kinds with a number of repeats, such as [[["global", "local"], 12]].

    Empty if the file has no groups.

    Raises:
        ConfigError: for a group in another form.
    """
    name, layer_kinds = "attention_types", list[str]()
    groups = reading.get(name, "number_of_windowed_layers", [])
    for group in groups if isinstance(groups, list) else [groups]:
        try:
            kinds, times = group
            layer_kinds += [str(kind) for kind in kinds] * min(whole(times, reading.place(name)), layers)
        except (TypeError, ValueError):
            what = f"{quoted(group)} is no list of kinds with how often it comes"
            raise ConfigError(Problem(what, reading.place(name), 'like [["global", "local"], 12]')) from None
    return layer_kinds[:layers]


def _number_of_windowed_layers(reading: Reading, layers: int) -> int:
    """The number of layers with a sliding window.

    With a period p, every p-th layer attends to all tokens and the others have a window. With `max_window_layers`, the layers
    from that one on have a window. Else all have.
    """
    quantity = "number_of_windowed_layers"
    period = reading.number("sliding_window_pattern", quantity) or reading.number("_sliding_window_pattern", quantity)
    if period:
        return layers - layers // period
    first = reading.number("max_window_layers", quantity) if "use_sliding_window" in reading.raw else None
    return max(layers - (first or 0), 0)


def read_mixture(reading: Reading) -> dict[str, Any]:
    """Reads the number and the places of layers that are mixtures of experts, and the width of an expert.

    For a network with at most one expert every quantity of experts is None.
    """
    experts = reading.values.get("number_of_experts") or 0
    if experts <= 1 or reading.raw.get("is_moe") is False:
        return dict.fromkeys((*EXPERTS, "expert_bias", "router_bias", "gated_experts"))
    layers = int(reading.values["layers"])
    marks = _mixture_layers(reading, layers)
    if not reading.values.get("experts_per_token"):
        reading.defaulted("experts_per_token", "1: config.json does not say it")
    width = reading.values.get("expert_feedforward_dimension") or reading.values["feedforward_dimension"]
    values: dict[str, Any] = {"number_of_MoE_layers": sum(marks), "expert_feedforward_dimension": width}
    if 0 < sum(marks) < layers and BLOCK_LETTERS not in reading.raw:
        values["mixture_layer_pattern"] = as_pattern(marks)
    if reading.values.get("shared_experts_feedforward_dimension") == 0:
        values["shared_experts_feedforward_dimension"] = None
    return values | _experts_without_compute(reading, int(experts))


def _experts_without_compute(reading: Reading, experts: int) -> dict[str, Any]:
    """Reads experts that give back their input, and how many others a token has on average; empty if there are none.

    The router chooses among both kinds alike, as a bias keeps the shares near that of equal choices.
    """
    idle = reading.number("zero_expert_num", "zero_compute_experts") or reading.number(
        "n_zero_experts", "zero_compute_experts"
    )
    if not idle:
        return {}
    chosen = reading.values.get("experts_per_token", 1)
    return {"zero_compute_experts": idle, "experts_per_token": chosen * experts / (experts + idle)}


EXPERTS = (
    "number_of_experts", "experts_per_token", "expert_feedforward_dimension", "number_of_shared_experts",
    "shared_experts_feedforward_dimension", "number_of_MoE_layers",
)  # fmt: skip


# Keys of the layers from one mixture to the next.
STEPS = ("decoder_sparse_step", "moe_layer_interval", "interleave_moe_layer_step")


def _mixture_layers(reading: Reading, layers: int) -> list[bool]:
    """For each layer, whether it is a mixture of experts. The first key of the file that says it decides."""
    quantity = "number_of_MoE_layers"
    kinds, indices = reading.words("mlp_layer_types", quantity), _listed_mixtures(reading, quantity)
    dense_start = reading.number("first_k_dense_replace", quantity) or reading.number("num_dense_layers", quantity) or 0
    if kinds:
        return mixtures(reading, kinds[:layers])
    if indices:
        reading.number("interleave_moe_layer_step", quantity)
        return [layer in indices for layer in range(layers)]
    if isinstance(reading.raw.get("moe_layer_freq"), list):
        return [bool(mark) for mark in reading.counts("moe_layer_freq", quantity)[:layers]]
    if "expert_layer_period" in reading.raw:
        period = reading.number("expert_layer_period", quantity, 1, least=1)
        return [layer % period == reading.number("expert_layer_offset", quantity, 0) for layer in range(layers)]
    frequency = reading.number("moe_layer_freq", quantity, 1, least=1)
    step = next(filter(None, (reading.number(name, quantity) for name in STEPS)), 1)
    start, end = reading.number("moe_layer_start_index", quantity, 0), reading.number("moe_layer_end_index", quantity)
    dense_indices = reading.counts("mlp_only_layers", quantity)
    return [
        max(dense_start, start) <= layer <= (layers if end is None else end)
        and layer not in dense_indices
        and layer % frequency == 0
        and (layer + 1) % step == 0
        for layer in range(layers)
    ]


def _listed_mixtures(reading: Reading, quantity: str) -> list[int]:
    """The indices of the layers that are mixtures, from a list, or from a text such as "3,4,5"; empty if there is neither."""
    written = reading.raw.get("moe_layers_enum")
    if not isinstance(written, str):
        return reading.counts("moe_layers", quantity)
    reading.get("moe_layers_enum", quantity)
    return [
        whole(int(index) if index.strip().isdigit() else index, reading.place("moe_layers_enum"))
        for index in written.split(",")
    ]


def read_ties(reading: Reading) -> dict[str, Any]:
    """Reads whether the output head shares the embedding: true, the default of transformers, if config.json does not say it."""
    if "tied_embeddings" in reading.values:
        return {}
    reading.defaulted("tied_embeddings", "true, the default of transformers")
    return {"tied_embeddings": True}


def read_parallel_blocks(reading: Reading) -> dict[str, Any]:
    """Reads the number of norms of a layer in which attention and feed-forward network run in parallel (Falcon, GPT-J)."""
    if reading.flag("new_decoder_architecture", "norms_per_layer"):
        return {"norms_per_layer": reading.number("num_ln_in_parallel_attn", "norms_per_layer", 2)}
    return {"norms_per_layer": 1} if reading.flag("parallel_attn", "norms_per_layer") else {}


def read_biases(reading: Reading) -> dict[str, Any]:
    """Reads that all products have biases, if the file sets `no_bias` to false (MPT); else empty."""
    if not reading.flag("no_bias", "mlp_bias", True):
        return {"query_key_value_bias": True, "attention_output_bias": True, "mlp_bias": True, "norm_vectors": 2}
    return {}


def read_norms(reading: Reading) -> dict[str, Any]:
    """Reads whether norms follow the blocks, and whether there is a final norm (OPT); empty for norms before the blocks."""
    if not reading.flag("do_layer_norm_before", "norm_position", True):
        return {"norm_position": "post", "final_norm": False}
    return {"final_norm": False} if reading.flag("_remove_final_layer_norm", "final_norm") else {}


def read_two_stacks(reading: Reading) -> dict[str, Any]:
    """Reads the layers of encoder and decoder together, and those of the decoder, which also attend to the encoder (T5).

    Empty for a network of one stack.
    """
    if reading.values.get("number_of_stacks") != 2:
        return {}
    if reading.raw.get("is_encoder_decoder") is False:
        reading.unsupported("is_encoder_decoder", "the file is of one of two stacks, and amped reads both")
    layers = int(reading.values["layers"])
    decoders = _first_number(reading, ("num_decoder_layers", "decoder_layers"), "cross_attention_layers") or layers
    _report_unlike_decoder(reading)
    projection = reading.word("feed_forward_proj", "gated_mlp", "")
    gated = reading.flag("is_gated_act", "gated_mlp") or projection.startswith("gated")
    return {"layers": layers + decoders, "cross_attention_layers": decoders, "gated_mlp": gated}


def read_cross_attention(reading: Reading) -> dict[str, Any]:
    """Reads that all layers of a decoder alone also attend to the output of an encoder of its own width; else empty.

    An encoder of another width is reported.
    """
    asks = reading.flag("add_cross_attention", "cross_attention_layers")
    if reading.values.get("number_of_stacks") == 2 or not (asks or reading.family.get("cross_attention")):
        return {}
    width, usual = (
        reading.number("cross_attention_hidden_size", "cross_attention_layers"),
        reading.values["dimensionality"],
    )
    if width not in (None, usual):
        reading.unsupported("cross_attention_hidden_size", f"{width}: the encoder's width, read as {usual}")
    return {"cross_attention_layers": int(reading.values["layers"])}


def _report_unlike_decoder(reading: Reading) -> None:
    """Reports a decoder whose heads or feed-forward networks are not those of its encoder, as amped has one size for both."""
    keys = {"decoder_ffn_dim": "feedforward_dimension", "decoder_attention_heads": "attention_heads",
            "num_decoder_attention_heads": "attention_heads"}  # fmt: skip
    for key, quantity in keys.items():
        size, usual = reading.number(key, quantity), reading.values.get(quantity)
        if size is not None and size != usual:
            reading.unsupported(key, f"{size}: read as those of the encoder, {usual}")


def read_further_parameters(reading: Reading) -> dict[str, Any]:
    """Reads the parameters of vectors that no other quantity counts, of the whole network; empty if there are none."""
    total = 0.0
    for what, terms in reading.family.get("vectors", {}).items():
        number, key = sum_of(reading, terms), f"model_type {reading.raw.get('model_type', '')}".strip()
        if number is None:
            reading.unsupported(key, f"{what}: the file does not say their number")
        else:
            reading.report.used.append(ReportLine(key, f"further_parameters: {what}"))
            total += number
    return {"further_parameters": int(total)} if total else {}


def read_embedding_width(reading: Reading) -> dict[str, Any]:
    """Reads the width of word embeddings; None if it is that of the layers."""
    width = reading.values.get("embedding_dimension")
    return {"embedding_dimension": None if width == reading.values["dimensionality"] else width}


RULES: tuple[Reader, ...] = (
    read_two_stacks, read_cross_attention, read_norms, read_heads, read_latent_attention, read_indexers, report_value_heads, read_feedforward, read_positions, read_mixers, read_compressed_keys, read_chosen_blocks, read_heads_of_layers, read_mixture, read_ties, read_parallel_blocks, read_biases, read_embedding_width, read_further_parameters, read_branches,
)  # fmt: skip
