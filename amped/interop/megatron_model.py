"""Megatron-LM's arguments about the network, where several of them and several quantities belong together."""

from __future__ import annotations

import ast
from typing import Any

from amped.base.errors import ConfigError, Problem, quoted
from amped.configuring.layout_text import Pattern, as_pattern, runs
from amped.interop.outgoing import Outgoing, Rule
from amped.interop.records import Reading, whole

# The vocabulary is padded to a multiple of this and of the tensor-parallel degree: megatron/training/arguments.py.
DIVISIBLE_BY = 128


def read_heads(reading: Reading) -> dict[str, Any]:
    """Key heads and the width of a head; with latent attention its part that is not rotated is given."""
    if reading.values.get("attention_kind") == "multi_latent":
        plain = reading.number("qk_head_dim", "head_dimension", 128)
        width = plain + reading.values["rotary_head_dimension"]
        return {"key_value_heads": int(reading.values.get("attention_heads", 1)), "head_dimension": width}
    groups = reading.number("num_query_groups", "key_value_heads")
    grouped = reading.flag("group_query_attention", "key_value_heads")
    width = reading.number("kv_channels", "head_dimension")
    return {"key_value_heads": groups or None if grouped else None, "head_dimension": width or None}


def write_heads(out: Outgoing) -> None:
    """The same in Megatron-LM's arguments."""
    groups, heads, width = out["key_value_heads"], out["attention_heads"], out["head_dimension"]
    if out["attention_kind"] == "multi_latent":
        out.write("part of a head that is not rotated", qk_head_dim=width - out["rotary_head_dimension"])
        return
    if groups != heads:
        why = f"{groups} key heads for {heads} query heads"
        out.write(why, group_query_attention=True, num_query_groups=groups)
    out.write("width of a head", kv_channels=width)


def read_vocabulary(reading: Reading) -> dict[str, Any]:
    """The tokens of the vocabulary with their padding."""
    into = "vocabulary_size"
    padded, plain = (reading.number(name, into) for name in ("padded_vocab_size", "vocab_size"))
    if padded:
        return {into: padded}
    if not plain:
        what = "the tokenizer says it, which amped does not read; give --set vocabulary_size=N"
        reading.unsupported("--vocab-size", what)
        return {}
    plain += reading.get("tokenizer_type", into) == "NullTokenizer"  # it adds a token for the end of a text
    unit = (reading.number("make_vocab_size_divisible_by", into) or DIVISIBLE_BY) * reading.degree("tensor")
    return {into: -(-plain // unit) * unit}


def write_vocabulary(out: Outgoing) -> None:
    """The vocabulary without a tokenizer of anybody's own, and random data."""
    size, tensor = out["vocabulary_size"], out["tensor_parallel_degree"]
    why = "no tokenizer and random data: replace them by your own"
    out.write(why, tokenizer_type="NullTokenizer", vocab_size=size - 1, mock_data=True)
    out.write("the vocabulary is not padded further", make_vocab_size_divisible_by=1)
    if size % tensor:
        out.lose("vocabulary_size", f"{size:,} tokens are padded to a multiple of {tensor}, the tensor-parallel degree")


# Biases that Megatron-LM has together with those of queries, keys and values, or not at all.
OTHER_BIASES = ("attention_output_bias", "mlp_bias")


def read_biases(reading: Reading) -> dict[str, Any]:
    """Biases of all products, or those of queries, keys and values alone."""
    of_all = reading.flag("add_bias_linear", "mlp_bias", True)
    of_queries = reading.flag("add_qkv_bias", "query_key_value_bias")
    return {"mlp_bias": of_all, "attention_output_bias": of_all, "query_key_value_bias": of_all or of_queries}


def write_biases(out: Outgoing) -> None:
    """Megatron-LM has biases everywhere, nowhere, or at queries, keys and values."""
    of_queries, *others = (bool(out[name]) for name in ("query_key_value_bias", *OTHER_BIASES))
    if all(others) and of_queries:
        return
    out.write("no biases of the products", add_bias_linear=False)
    if of_queries:
        out.write("biases of queries, keys and values", add_qkv_bias=True)
    if any(others):
        for name in OTHER_BIASES:
            out.lose(name, "Megatron-LM has all biases of products, none, or those of queries, keys and values")


ROTATED = ("rope", "yarn", "mrope")


def read_positions(reading: Reading) -> dict[str, Any]:
    """How positions are told, and the table of learned ones."""
    kind = reading.word("position_embedding_type", "positions", "learned_absolute")
    longest = reading.number("max_position_embeddings", "position_table")
    if kind == "learned_absolute":
        return {"positions": "learned", "position_table": longest or reading.values.get("context", 0)}
    if kind not in ROTATED:
        reading.unsupported("--position-embedding-type", f"{kind}, read as rope")
    return {"positions": "rope", "position_table": 0}


def write_positions(out: Outgoing) -> None:
    """Rotations or a learned table; Megatron-LM wants the longest sequence in either case."""
    kind = out["positions"]
    if kind not in ("rope", "learned"):
        out.lose("positions", f"{kind} has no argument in pretrain_gpt.py; written as rope")
    learned = kind == "learned"
    out.write("how positions are told", position_embedding_type="learned_absolute" if learned else "rope")
    table = out["position_table"] if learned else 0
    out.write("longest sequence", max_position_embeddings=table or out["context"])


def read_dropout(reading: Reading) -> dict[str, Any]:
    """One rate of dropout; Megatron-LM has one behind blocks and one in attention."""
    hidden, attention = (reading.share(f"{place}_dropout", "dropout", 0.1) for place in ("hidden", "attention"))
    if hidden != attention:
        what = f"{attention:g} beside --hidden-dropout {hidden:g}; amped has one rate, {hidden:g}"
        reading.unsupported("--attention-dropout", what)
    return {"dropout": hidden}


def write_dropout(out: Outgoing) -> None:
    """Both rates."""
    out.write("dropout", hidden_dropout=out["dropout"], attention_dropout=out["dropout"])


def read_windows(reading: Reading) -> dict[str, Any]:
    """The window, and how many layers have it: every layer but each N-th, or those of a list."""
    window, into = reading.get("window_size", "attention_window"), "number_of_windowed_layers"
    layers = number = int(reading.values["layers"])
    skipped, place = reading.get("window_attn_skip_freq", into), reading.place("window_attn_skip_freq")
    if skipped:
        marks = listed(skipped, place)
        number = sum(marks[:layers]) if isinstance(marks, list) else layers - layers // whole(marks, place, least=1)
    if window in (None, 0, ""):
        return {}
    left = _left(window, reading.place("window_size"))
    return {"attention_window": left + 1, into: number} if left is not None else {}


def _left(window: Any, place: str) -> int | None:
    """The tokens before a token that it attends to, of a pair like 4095,0 or (4095, 0); None where -1 says all.

    Raises:
        ConfigError: for another value.
    """
    words = window if isinstance(window, list) else str(window).strip("()[] ").replace(",", " ").split()
    try:
        left, _ = (int(str(word)) for word in words)
    except ValueError:
        raise ConfigError(Problem(f"{quoted(window)} is no pair of tokens", place, "like 4095,0")) from None
    return None if left == -1 else whole(left, place)


def write_windows(out: Outgoing) -> None:
    """The window without the token itself; which layers have it is not known beyond their number."""
    window, number, layers = (out[name] for name in ("attention_window", "number_of_windowed_layers", "layers"))
    if not window or not number:
        return
    out.write(f"{number} of {layers} layers attend to {window} tokens", window_size=f"{window - 1},0")
    whole_layers = layers - number
    if whole_layers and layers % whole_layers == 0:
        out.write("each of these layers attends to all tokens", window_attn_skip_freq=layers // whole_layers)
    elif whole_layers:
        why = "amped knows the number of such layers, not their places"
        out.write(why, window_attn_skip_freq=f"([1]*{number}+[0]*{whole_layers})")


def read_experts(reading: Reading) -> dict[str, Any]:
    """Which layers are mixtures, the width of an expert, and how tokens travel."""
    values, width = reading.values, "expert_feedforward_dimension"
    if "number_of_experts" not in values:
        return {}
    layers = int(values["layers"])
    frequency, place = reading.get("moe_layer_freq", "number_of_MoE_layers", 1), reading.place("moe_layer_freq")
    marks = _mixture_layers(frequency, place, layers)
    reading.word("moe_flex_dispatcher_backend", "deduplicated_dispatch")
    return {
        width: values.get(width, values.get("feedforward_dimension")),
        "number_of_MoE_layers": sum(marks),
        "mixture_layer_pattern": as_pattern(marks) if 0 < sum(marks) < layers else None,
        "expert_capacity_factor": _capacity(reading),
        "deduplicated_dispatch": _travels_once(reading),
    }


def _travels_once(reading: Reading) -> bool:
    """Whether a token travels once to an accelerator; that all tokens are gathered is told, as amped has no such dispatch."""
    kind = reading.word("moe_token_dispatcher_type", "deduplicated_dispatch")
    if kind == "allgather":
        reading.unsupported("--moe-token-dispatcher-type", "allgather, read as an all-to-all")
    return reading.flag("moe_enable_deepep", "deduplicated_dispatch") or kind == "flex"


def _capacity(reading: Reading) -> float:
    """The places of an expert as a multiple of its mean load; 0 where each token finds one, which a negative number says, too."""
    name = "expert_capacity_factor"
    factor = reading.get(f"moe_{name}", name, 0)
    has_no_limit = isinstance(factor, int | float) and factor < 0
    return 0.0 if has_no_limit else float(reading.checked(name, factor, f"moe_{name}"))


def _mixture_layers(frequency: Any, place: str, layers: int) -> list[int]:
    """For each layer 1 if it is a mixture: every N-th from the first, or those of a list."""
    marks = listed(frequency, place)
    if isinstance(marks, list):
        return marks[:layers]
    period = whole(marks, place, least=1)
    return [int(layer % period == 0) for layer in range(layers)]


def write_experts(out: Outgoing) -> None:
    """Which layers are mixtures, and how tokens travel."""
    if out["number_of_experts"] <= 1:
        return
    if out["matrix_precision"] not in ("fp16", "fp32", "tf32"):  # fp8 and fp4 are written beside bf16
        out.write("one grouped product for the experts of an accelerator", moe_grouped_gemm=True)
    marks = mixture_marks(out)
    if 0 < sum(marks) < len(marks):
        frequency = "(" + "+".join(f"[{mark}]*{number}" for mark, number in runs(map(int, marks))) + ")"
        out.write(f"{sum(marks)} of {len(marks)} layers are mixtures", moe_layer_freq=frequency)
    if out["router_bias"]:
        out.write("a bias of each expert in the router", moe_router_score_function="sigmoid")
    out.write("places of an expert", moe_expert_capacity_factor=out["expert_capacity_factor"] or None)
    kind, backend = ("flex", "deepep") if out["deduplicated_dispatch"] else ("alltoall", None)
    why = "how tokens travel to experts"
    out.write(why, moe_token_dispatcher_type=kind, moe_flex_dispatcher_backend=backend)


def mixture_marks(out: Outgoing) -> list[int]:
    """For each layer 1 if it is a mixture: as the pattern says, else the last layers, as amped assumes."""
    layers, number, pattern = (out[name] for name in ("layers", "number_of_MoE_layers", "mixture_layer_pattern"))
    marks = Pattern(pattern).of(layers) if pattern else None
    if marks:
        return [int(mark) for mark in marks]
    if 0 < number < layers:
        what = f"amped knows that {number} of {layers} layers are mixtures, not which; the last ones are written"
        out.lose("mixture_layer_pattern", what)
    return [0] * (layers - number) + [1] * number


def listed(written: Any, place: str) -> int | list[int]:
    """A number, or a list of zeros and ones like ([0]*3+[1]*58), which is read and not evaluated.

    Raises:
        ConfigError: for another text.
    """
    try:
        value: int | list[int] = _value(ast.parse(str(written), mode="eval").body)
        if isinstance(value, list) and not set(value) <= {0, 1}:
            raise ValueError(value)
    except (SyntaxError, TypeError, ValueError, RecursionError, MemoryError):
        what = f"{quoted(written)} is neither a number nor a list of 0 and 1"
        raise ConfigError(Problem(what, place, "like 2 or ([0]*3+[1]*58)")) from None
    return value


def _value(node: ast.expr) -> Any:
    """The value of numbers, lists, sums of lists and repetitions of them.

    Raises:
        ValueError: for anything else, or a list that is too long.
    """
    match node:
        case ast.Constant(value=int(number)) if abs(number) < LONGEST:
            return int(number)
        case ast.List(elts=parts) | ast.Tuple(elts=parts):
            return [int(_value(part)) for part in parts]
        case ast.BinOp(op=ast.Mult()):
            marks, times = _value(node.left), _value(node.right)
            if isinstance(marks, list) and isinstance(times, int) and 0 <= len(marks) * times < LONGEST:
                return marks * times
        case ast.BinOp(op=ast.Add()):
            marks, more = _value(node.left), _value(node.right)
            if isinstance(marks, list) and isinstance(more, list):
                return marks + more
    raise ValueError(ast.dump(node)[:40])


LONGEST = 100_000
RULES = {
    "heads": Rule(read_heads, write_heads), "vocabulary": Rule(read_vocabulary, write_vocabulary), "biases": Rule(read_biases, write_biases),
    "positions": Rule(read_positions, write_positions), "dropout": Rule(read_dropout, write_dropout),
    "windows": Rule(read_windows, write_windows), "experts": Rule(read_experts, write_experts),
}  # fmt: skip
