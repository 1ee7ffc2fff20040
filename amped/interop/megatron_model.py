"""Megatron-LM's arguments about the network, where several of them and several quantities belong together."""

from __future__ import annotations

import ast
from collections.abc import Sequence
from typing import Any

from amped.base.errors import ConfigError, Problem, quoted
from amped.configuring.layout_text import Pattern, as_pattern, runs
from amped.interop.outgoing import Outgoing, Rule
from amped.interop.records import Reading, whole

# The vocabulary is padded to a multiple of this and of the tensor-parallel degree: megatron/training/arguments.py.
DIVISIBLE_BY = 128
# The dispatchers that have a type of their own; `flex` has backends.
DISPATCHERS = ("allgather", "alltoall")
# The argument that says a kind of attention, and its word for attention to compressed keys.
VARIANT, COMPRESSED_VARIANT = "experimental_attention_variant", "dsv4_hybrid"


def read_heads(reading: Reading) -> dict[str, Any]:
    """Reads the number of key-value heads and the width of a head.

    With latent attention the file gives the part of a head that is not rotated; amped's width is the sum of both parts.
    """
    if reading.raw.get(VARIANT) == COMPRESSED_VARIANT:
        return {}
    if reading.values.get("attention_kind") == "multi_latent":
        unrotated_width = reading.number("qk_head_dim", "head_dimension", 128)
        width = unrotated_width + reading.values["rotary_head_dimension"]
        return {"key_value_heads": int(reading.values.get("attention_heads", 1)), "head_dimension": width}
    groups = reading.number("num_query_groups", "key_value_heads")
    is_grouped = reading.flag("group_query_attention", "key_value_heads")
    width = reading.number("kv_channels", "head_dimension")
    return {"key_value_heads": groups or None if is_grouped else None, "head_dimension": width or None}


def write_heads(out: Outgoing) -> None:
    """Writes grouped-query attention and the width of a head; with latent attention the part that is not rotated."""
    groups, heads, width = out["key_value_heads"], out["attention_heads"], out["head_dimension"]
    if out["attention_kind"] == "compressed":
        return
    if out["attention_kind"] == "multi_latent":
        out.write("part of a head that is not rotated", qk_head_dim=width - out["rotary_head_dimension"])
        return
    if groups != heads:
        why = f"{groups} key heads for {heads} query heads"
        out.write(why, group_query_attention=True, num_query_groups=groups)
    out.write("width of a head", kv_channels=width)


def read_vocabulary(reading: Reading) -> dict[str, Any]:
    """Reads the padded size of the vocabulary as {"vocabulary_size": n}.

    It is `padded_vocab_size`, or `vocab_size` rounded up to a multiple of the divisor times the tensor-parallel degree. Empty,
    with a line in the report, if the file gives neither.
    """
    quantity = "vocabulary_size"
    padded, size = (reading.number(name, quantity) for name in ("padded_vocab_size", "vocab_size"))
    if padded:
        return {quantity: padded}
    if not size:
        what = "the tokenizer says it, which amped does not read; give --set vocabulary_size=N"
        reading.unsupported("--vocab-size", what)
        return {}
    size += reading.get("tokenizer_type", quantity) == "NullTokenizer"  # it adds a token for the end of a text
    multiple = (reading.number("make_vocab_size_divisible_by", quantity) or DIVISIBLE_BY) * reading.degree("tensor")
    return {quantity: -(-size // multiple) * multiple}


def write_vocabulary(out: Outgoing) -> None:
    """Writes the size of the vocabulary with a dummy tokenizer (which adds one token) and random data."""
    size, tensor = out["vocabulary_size"], out["tensor_parallel_degree"]
    why = "no tokenizer and random data: replace them by your own"
    out.write(why, tokenizer_type="NullTokenizer", vocab_size=size - 1, mock_data=True)
    out.write("the vocabulary is not padded further", make_vocab_size_divisible_by=1)
    if size % tensor:
        out.lose("vocabulary_size", f"{size:,} tokens are padded to a multiple of {tensor}, the tensor-parallel degree")


# Biases that Megatron-LM has together with those of queries, keys and values, or not at all.
OTHER_BIASES = ("attention_output_bias", "mlp_bias")


def read_biases(reading: Reading) -> dict[str, Any]:
    """Reads whether matrix products have biases: all, those of queries, keys and values alone, or none."""
    has_all = reading.flag("add_bias_linear", "mlp_bias", True)
    has_qkv = reading.flag("add_qkv_bias", "query_key_value_bias")
    return {"mlp_bias": has_all, "attention_output_bias": has_all, "query_key_value_bias": has_all or has_qkv}


def write_biases(out: Outgoing) -> None:
    """Writes biases of all products, of none, or of queries, keys and values; reports any other combination as lost."""
    has_query_key_value, *has_others = (bool(out[name]) for name in ("query_key_value_bias", *OTHER_BIASES))
    if all(has_others) and has_query_key_value:
        return
    out.write("no biases of the products", add_bias_linear=False)
    if has_query_key_value:
        out.write("biases of queries, keys and values", add_qkv_bias=True)
    if any(has_others):
        for name in OTHER_BIASES:
            out.lose(name, "Megatron-LM has all biases of products, none, or those of queries, keys and values")


ROTATED = ("rope", "yarn", "mrope")


def read_positions(reading: Reading) -> dict[str, Any]:
    """Reads the kind of positions and the rows of the table of learned positions. An unknown kind is read as rope."""
    kind = reading.word("position_embedding_type", "positions", "learned_absolute")
    longest = reading.number("max_position_embeddings", "position_table")
    if kind == "learned_absolute":
        return {"positions": "learned", "position_table": longest or reading.values.get("context", 0)}
    if kind == "none":
        return {"positions": "none", "position_table": 0}
    if kind not in ROTATED:
        reading.unsupported("--position-embedding-type", f"{kind}, read as rope")
    return {"positions": "rope", "position_table": 0}


def write_positions(out: Outgoing) -> None:
    """Writes the kind of positions (rope or a learned table), and the longest sequence, which Megatron-LM needs for both."""
    kind = out["positions"]
    if kind not in ("rope", "learned", "none"):
        out.lose("positions", f"{kind} has no argument in pretrain_gpt.py; written as rope")
    is_learned = kind == "learned"
    written = {"learned": "learned_absolute", "none": "none"}.get(kind, "rope")
    out.write("how positions are told", position_embedding_type=written)
    table = out["position_table"] if is_learned else 0
    out.write("longest sequence", max_position_embeddings=table or out["context"])


def read_dropout(reading: Reading) -> dict[str, Any]:
    """Reads the rate of dropout behind blocks. Another rate in attention is reported, because amped has one rate."""
    hidden, attention = (reading.share(f"{place}_dropout", "dropout", 0.1) for place in ("hidden", "attention"))
    if hidden != attention:
        what = f"{attention:g} beside --hidden-dropout {hidden:g}; amped has one rate, {hidden:g}"
        reading.unsupported("--attention-dropout", what)
    return {"dropout": hidden}


def write_dropout(out: Outgoing) -> None:
    """Writes the rate of dropout twice: behind blocks, and in attention."""
    out.write("dropout", hidden_dropout=out["dropout"], attention_dropout=out["dropout"])


def read_windows(reading: Reading) -> dict[str, Any]:
    """Reads the width of the attention window and the number of layers with a window; empty if there is none.

    All layers have a window but every N-th one, or those that a list of zeros and ones marks with 1.
    """
    window, quantity = reading.get("window_size", "attention_window"), "number_of_windowed_layers"
    layers = windowed_layers = int(reading.values["layers"])
    skipped, place = reading.get("window_attn_skip_freq", quantity), reading.place("window_attn_skip_freq")
    if skipped:
        marks = number_or_marks(skipped, place)
        if isinstance(marks, list):
            windowed_layers = sum(marks[:layers])
        else:
            windowed_layers = layers - layers // whole(marks, place, least=1)
    if window in (None, 0, ""):
        return {}
    left = _earlier_tokens(window, reading.place("window_size"))
    return {"attention_window": left + 1, quantity: windowed_layers} if left is not None else {}


def _earlier_tokens(window: Any, place: str) -> int | None:
    """The number of earlier tokens that a token attends to, from a pair such as 4095,0 or (4095, 0); None if -1 says all.

    Raises:
        ConfigError: for a value that is no pair of whole numbers.
    """
    words = window if isinstance(window, list) else str(window).strip("()[] ").replace(",", " ").split()
    try:
        left, _ = (int(str(word)) for word in words)
    except ValueError:
        raise ConfigError(Problem(f"{quoted(window)} is no pair of tokens", place, "like 4095,0")) from None
    return None if left == -1 else whole(left, place)


def write_windows(out: Outgoing) -> None:
    """Writes the attention window without the token itself. The places of windowed layers are a guess: amped knows their number."""
    window, windowed, layers = (out[name] for name in ("attention_window", "number_of_windowed_layers", "layers"))
    if not window or not windowed or out["attention_kind"] == "compressed":
        return
    out.write(f"{windowed} of {layers} layers attend to {window} tokens", window_size=f"{window - 1},0")
    full_layers = layers - windowed
    if full_layers and layers % full_layers == 0:
        out.write("each of these layers attends to all tokens", window_attn_skip_freq=layers // full_layers)
    elif full_layers:
        why = "amped knows the number of such layers, not their places"
        out.write(why, window_attn_skip_freq=f"([1]*{windowed}+[0]*{full_layers})")


def read_experts(reading: Reading) -> dict[str, Any]:
    """Reads which layers are mixtures of experts, the width and the capacity of an expert, and how tokens travel to experts.

    Empty for a dense network.
    """
    values, width = reading.values, "expert_feedforward_dimension"
    if "number_of_experts" not in values:
        return {}
    layers = int(values["layers"])
    frequency, place = reading.get("moe_layer_freq", "number_of_MoE_layers", 1), reading.place("moe_layer_freq")
    marks = _mixture_layers(frequency, place, layers)
    return {
        width: values.get(width, values.get("feedforward_dimension")),
        "number_of_MoE_layers": sum(marks),
        "mixture_layer_pattern": as_pattern(marks) if 0 < sum(marks) < layers else None,
        "expert_capacity_factor": _expert_capacity(reading),
        "dispatcher": _dispatcher(reading),
    }


def _dispatcher(reading: Reading) -> str:
    """How tokens travel to their experts: amped's name of the dispatcher."""
    kind = reading.word("moe_token_dispatcher_type", "dispatcher", "allgather")
    backend = reading.word("moe_flex_dispatcher_backend", "dispatcher", "deepep")
    is_flexible = reading.flag("moe_enable_deepep", "dispatcher") or kind == "flex"
    return backend if is_flexible else kind if kind in DISPATCHERS else "alltoall"


def _expert_capacity(reading: Reading) -> float:
    """The tokens that an expert can take as a multiple of its mean load; 0.0 for no limit, which a negative number means too."""
    name = "expert_capacity_factor"
    factor = reading.get(f"moe_{name}", name, 0)
    has_no_limit = isinstance(factor, int | float) and factor < 0
    return 0.0 if has_no_limit else float(reading.checked(name, factor, f"moe_{name}"))


def _mixture_layers(frequency: Any, place: str, layers: int) -> list[int]:
    """For each layer 1 if it is a mixture of experts, else 0: every N-th layer from the first, or those that a list marks."""
    marks = number_or_marks(frequency, place)
    if isinstance(marks, list):
        return marks[:layers]
    period = whole(marks, place, least=1)
    return [int(layer % period == 0) for layer in range(layers)]


def write_experts(out: Outgoing) -> None:
    """Writes which layers are mixtures of experts, the capacity of an expert, and how tokens travel; nothing if dense."""
    if out["number_of_experts"] <= 1:
        return
    if out["matrix_precision"] not in ("fp16", "fp32", "tf32"):  # fp8 and fp4 are written beside bf16
        out.write("one grouped product for the experts of an accelerator", moe_grouped_gemm=True)
    marks = [] if out.values.get("single_block_pattern") else mixture_marks(out)
    if 0 < sum(marks) < len(marks):
        frequency = "(" + "+".join(f"[{mark}]*{number}" for mark, number in runs(map(int, marks))) + ")"
        out.write(f"{sum(marks)} of {len(marks)} layers are mixtures", moe_layer_freq=frequency)
    if out["router_bias"]:
        out.write("a bias of each expert in the router", moe_router_score_function="sigmoid")
    out.write("places of an expert", moe_expert_capacity_factor=out["expert_capacity_factor"] or None)
    named = "alltoall" if out["dispatcher"] == "ragged_all_to_all" else out["dispatcher"]
    dispatcher = "deepep" if out["deduplicated_dispatch"] and named in DISPATCHERS else named
    kind, backend = (dispatcher, None) if dispatcher in DISPATCHERS else ("flex", dispatcher)
    why = "how tokens travel to experts"
    out.write(why, moe_token_dispatcher_type=kind, moe_flex_dispatcher_backend=backend)


def mixture_marks(out: Outgoing) -> list[int]:
    """For each layer 1 if it is a mixture of experts, else 0.

    Without a pattern the last layers are the mixtures, as amped assumes; the report then says that their places are not known.
    """
    layers, mixtures, pattern = (out[name] for name in ("layers", "number_of_MoE_layers", "mixture_layer_pattern"))
    marks = Pattern(pattern).of(layers) if pattern else None
    if marks:
        return [int(mark) for mark in marks]
    if 0 < mixtures < layers:
        what = f"amped knows that {mixtures} of {layers} layers are mixtures, not which; the last ones are written"
        out.lose("mixture_layer_pattern", what)
    return [0] * (layers - mixtures) + [1] * mixtures


def number_or_marks(
    written: Any, place: str, marks: Sequence[int] = (0, 1), like: str = "2 or ([0]*3+[1]*58)"
) -> int | list[int]:
    """A number, or a list of marks, from text such as ([0]*3+[1]*58). The text is parsed and never evaluated.

    Args:
        written: the text.
        place: where it stands.
        marks: what a list may have.
        like: an example.

    Raises:
        ConfigError: for any other text.
    """
    try:
        value: int | list[int] = _parsed_value(ast.parse(str(written), mode="eval").body)
        if isinstance(value, list) and not {*value} <= {*marks}:
            raise ValueError(value)
    except (SyntaxError, TypeError, ValueError, RecursionError, MemoryError):
        what = f"{quoted(written)} is neither a number nor a list of {', '.join(map(str, marks[:-1]))} and {marks[-1]}"
        raise ConfigError(Problem(what, place, f"like {like}")) from None
    return value


def _parsed_value(node: ast.expr) -> Any:
    """The value of a parsed expression: a whole number, a list, a sum of lists, or a list times a number.

    Raises:
        ValueError: for any other expression, or a list that is too long.
    """
    match node:
        case ast.Constant(value=int(number)) if abs(number) < LONGEST:
            return int(number)
        case ast.List(elts=parts) | ast.Tuple(elts=parts):
            return [int(_parsed_value(part)) for part in parts]
        case ast.BinOp(op=ast.Mult()):
            marks, times = _parsed_value(node.left), _parsed_value(node.right)
            if isinstance(marks, list) and isinstance(times, int) and 0 <= len(marks) * times < LONGEST:
                return marks * times
        case ast.BinOp(op=ast.Add()):
            marks, further_marks = _parsed_value(node.left), _parsed_value(node.right)
            if isinstance(marks, list) and isinstance(further_marks, list):
                return marks + further_marks
    raise ValueError(ast.dump(node)[:40])


# Whether the indexer learns from the chosen keys alone: Megatron-LM's switch, and amped's word.
INDEXER_LOSSES = {True: "chosen_keys", False: "all_keys"}


def read_indexer(reading: Reading) -> dict[str, Any]:
    """Reads an indexer that chooses the keys of a token (DSA); empty if the file has none.

    Without a coefficient of its loss, or with 0, the indexer does not learn.
    """
    if reading.raw.get(VARIANT) not in ("dsa", COMPRESSED_VARIANT):
        return {}
    reading.get(VARIANT, "indexer_heads")
    coefficient = reading.get("dsa_indexer_loss_coeff", "indexer_loss")
    loss = INDEXER_LOSSES[reading.flag("dsa_indexer_use_sparse_loss", "indexer_loss")]
    return {
        "indexer_heads": reading.needed("dsa_indexer_n_heads", "indexer_heads"),
        "indexer_head_dimension": reading.needed("dsa_indexer_head_dim", "indexer_head_dimension"),
        "indexed_keys": reading.needed("dsa_indexer_topk", "indexed_keys"),
        "indexer_loss": loss if coefficient else "none",
    }


def write_indexer(out: Outgoing) -> None:
    """Writes an indexer that chooses the keys of a token; nothing if the network has none."""
    if "indexer_heads" not in out.values:
        return
    loss = out["indexer_loss"]
    if out["attention_kind"] != "compressed":
        out.write("an indexer chooses the keys of a token", **{VARIANT: "dsa"})
    out.write(
        "an indexer chooses the keys of a token",
        dsa_indexer_n_heads=out["indexer_heads"], dsa_indexer_head_dim=out["indexer_head_dimension"],
        dsa_indexer_topk=out["indexed_keys"], dsa_indexer_loss_coeff=0.0 if loss == "none" else LOSS_COEFFICIENT,
    )  # fmt: skip
    if loss == "chosen_keys":
        out.write("the indexer learns from the chosen keys", dsa_indexer_use_sparse_loss=True)


# A usual coefficient of the indexer's loss. Source: NVIDIA Megatron-Bridge (0.001).
LOSS_COEFFICIENT = 0.001
LONGEST = 100_000
RULES = {
    "heads": Rule(read_heads, write_heads), "vocabulary": Rule(read_vocabulary, write_vocabulary), "biases": Rule(read_biases, write_biases),
    "positions": Rule(read_positions, write_positions), "dropout": Rule(read_dropout, write_dropout),
    "windows": Rule(read_windows, write_windows), "indexer": Rule(read_indexer, write_indexer), "experts": Rule(read_experts, write_experts),
}  # fmt: skip
