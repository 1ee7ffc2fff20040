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
    """Key heads, the width of a head, and latent attention."""
    count = int(reading.values.get("attention_heads", 1))
    if reading.flag("multi_latent_attention", "attention_kind"):
        rotary = reading.number("qk_pos_emb_head_dim", "rotary_head_dimension", 64)
        plain = reading.number("qk_head_dim", "head_dimension", 128)
        return {
            "attention_kind": "multi_latent", "key_value_heads": count, "head_dimension": plain + rotary, "rotary_head_dimension": rotary,
            "value_head_dimension": reading.number("v_head_dim", "value_head_dimension", 128),
            "query_latent_dimension": reading.number("q_lora_rank", "query_latent_dimension", 0),
            "key_value_latent_dimension": reading.number("kv_lora_rank", "key_value_latent_dimension", 512),
        }  # fmt: skip
    groups = reading.number("num_query_groups", "key_value_heads")
    grouped = reading.flag("group_query_attention", "key_value_heads")
    width = reading.number("kv_channels", "head_dimension")
    return {
        **({"key_value_heads": groups} if grouped and groups else {}),
        **({"head_dimension": width} if width else {}),
    }


def write_heads(out: Outgoing) -> None:
    """The same in Megatron-LM's arguments."""
    if out["attention_kind"] == "multi_latent":
        rotary, width = out["rotary_head_dimension"], out["head_dimension"]
        out.write("latent attention", multi_latent_attention=True, q_lora_rank=out["query_latent_dimension"] or None,
                  kv_lora_rank=out["key_value_latent_dimension"], qk_head_dim=width - rotary, qk_pos_emb_head_dim=rotary,
                  v_head_dim=out["value_head_dimension"])  # fmt: skip
        return
    groups = out["key_value_heads"]
    if groups not in (None, out["attention_heads"]):
        out.write(
            f"{groups} key heads for {out['attention_heads']} query heads",
            group_query_attention=True,
            num_query_groups=groups,
        )
    out.write("width of a head", kv_channels=out["head_dimension"])


def read_vocabulary(reading: Reading) -> dict[str, Any]:
    """The tokens of the vocabulary with their padding."""
    padded, plain = (
        reading.number("padded_vocab_size", "vocabulary_size"),
        reading.number("vocab_size", "vocabulary_size"),
    )
    if padded:
        return {"vocabulary_size": padded}
    if not plain:
        reading.unsupported(
            "--vocab-size", "the tokenizer says it, which amped does not read; give --set vocabulary_size=N"
        )
        return {}
    plain += (
        reading.get("tokenizer_type", "vocabulary_size") == "NullTokenizer"
    )  # it adds a token for the end of a text
    unit = (reading.number("make_vocab_size_divisible_by", "vocabulary_size") or DIVISIBLE_BY) * int(
        reading.values.get("tensor_parallel_degree", 1)
    )
    return {"vocabulary_size": -(-plain // unit) * unit}


def write_vocabulary(out: Outgoing) -> None:
    """The vocabulary without a tokenizer of anybody's own, and random data."""
    size, tensor = out["vocabulary_size"], out["tensor_parallel_degree"]
    out.write(
        "no tokenizer and random data: replace them by your own",
        tokenizer_type="NullTokenizer",
        vocab_size=size - 1,
        mock_data=True,
    )
    out.write("the vocabulary is not padded further", make_vocab_size_divisible_by=1)
    if size % tensor:
        out.lose("vocabulary_size", f"{size:,} tokens are padded to a multiple of {tensor}, the tensor-parallel degree")


def read_biases(reading: Reading) -> dict[str, Any]:
    """Biases of all products, or those of queries, keys and values alone."""
    every = reading.flag("add_bias_linear", "mlp_bias", True)
    some = reading.flag("add_qkv_bias", "query_key_value_bias")
    return {"mlp_bias": every, "attention_output_bias": every, "query_key_value_bias": every or some}


def write_biases(out: Outgoing) -> None:
    """Megatron-LM has biases everywhere, nowhere, or at queries, keys and values."""
    names = ("query_key_value_bias", "attention_output_bias", "mlp_bias")
    first, *others = (bool(out[name]) for name in names)
    if all(others) and first:
        return
    out.write("no biases of the products", add_bias_linear=False)
    if first:
        out.write("biases of queries, keys and values", add_qkv_bias=True)
    if any(others):
        for name in names[1:]:
            out.lose(name, "Megatron-LM has all biases of products, none, or those of queries, keys and values")


ROTATED = ("rope", "yarn", "mrope")


def read_positions(reading: Reading) -> dict[str, Any]:
    """How positions are told, and the table of learned ones."""
    kind = reading.word("position_embedding_type", "positions", "learned_absolute")
    longest = reading.number("max_position_embeddings", "position_table")
    if kind in ROTATED:
        return {"positions": "rope", "position_table": 0}
    if kind != "learned_absolute":
        reading.unsupported("--position-embedding-type", f"{kind}, read as rope")
        return {"positions": "rope", "position_table": 0}
    return {"positions": "learned", "position_table": longest or reading.values.get("context", 0)}


def write_positions(out: Outgoing) -> None:
    """Rotations or a learned table; Megatron-LM wants the longest sequence in either case."""
    kind = out["positions"]
    if kind not in ("rope", "learned"):
        out.lose("positions", f"{kind} has no argument in pretrain_gpt.py; written as rope")
    learned = kind == "learned"
    out.write("how positions are told", position_embedding_type="learned_absolute" if learned else "rope")
    out.write(
        "longest sequence",
        max_position_embeddings=out["position_table"] if learned and out["position_table"] else out["context"],
    )


def read_dropout(reading: Reading) -> dict[str, Any]:
    """One rate of dropout; Megatron-LM has one behind blocks and one in attention."""
    hidden, attention = (reading.share(f"{place}_dropout", "dropout", 0.1) for place in ("hidden", "attention"))
    if hidden != attention:
        reading.unsupported(
            "--attention-dropout",
            f"{attention:g} beside --hidden-dropout {hidden:g}; amped has one rate, {hidden:g}",
        )
    return {"dropout": hidden}


def write_dropout(out: Outgoing) -> None:
    """Both rates."""
    out.write("dropout", hidden_dropout=out["dropout"], attention_dropout=out["dropout"])


def read_windows(reading: Reading) -> dict[str, Any]:
    """The window, and how many layers have it: every layer but each N-th, or those of a list."""
    window, into = reading.get("window_size", "attention_window"), "number_of_windowed_layers"
    layers, number = int(reading.values["layers"]), int(reading.values["layers"])
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
    window, number, layers = (
        out["attention_window"],
        out["number_of_windowed_layers"],
        out["layers"],
    )
    if not window or not number:
        return
    out.write(f"{number} of {layers} layers attend to {window} tokens", window_size=f"{window - 1},0")
    whole_layers = layers - number
    if whole_layers and layers % whole_layers == 0:
        out.write("each of these layers attends to all tokens", window_attn_skip_freq=layers // whole_layers)
    elif whole_layers:
        out.write(
            "amped knows the number of such layers, not their places",
            window_attn_skip_freq=f"([1]*{number}+[0]*{whole_layers})",
        )


def read_experts(reading: Reading) -> dict[str, Any]:
    """Mixtures of experts, and which layers have them."""
    experts = reading.number("num_experts", "number_of_experts", 0)
    if experts <= 1:
        return {}
    layers = int(reading.values["layers"])
    written, place = reading.get("moe_layer_freq", "number_of_MoE_layers", 1), reading.place("moe_layer_freq")
    marks = _mixture_layers(written, place, layers)
    found: dict[str, Any] = {
        "number_of_experts": experts, "experts_per_token": reading.number("moe_router_topk", "experts_per_token", 2),
        "expert_feedforward_dimension": reading.number("moe_ffn_hidden_size", "expert_feedforward_dimension") or reading.values.get("feedforward_dimension"),
        "number_of_MoE_layers": sum(marks), "router_bias": reading.flag("moe_router_enable_expert_bias", "router_bias"),
        "expert_capacity_factor": _capacity(reading),
        "deduplicated_dispatch": _travels_once(reading),
    }  # fmt: skip
    reading.word("moe_flex_dispatcher_backend", "deduplicated_dispatch")
    shared = reading.number("moe_shared_expert_intermediate_size", "shared_experts_feedforward_dimension")
    found |= {"shared_experts_feedforward_dimension": shared} if shared else {}
    return found | ({"mixture_layer_pattern": as_pattern(marks)} if 0 < sum(marks) < layers else {})


def _travels_once(reading: Reading) -> bool:
    """Whether a token travels once to an accelerator; that all tokens are gathered is told, as amped has no such dispatch."""
    kind = reading.word("moe_token_dispatcher_type", "deduplicated_dispatch")
    if kind == "allgather":
        reading.unsupported("--moe-token-dispatcher-type", "allgather, read as an all-to-all")
    return reading.flag("moe_enable_deepep", "deduplicated_dispatch") or kind == "flex"


def _capacity(reading: Reading) -> float:
    """The places of an expert as a multiple of its mean load; 0 where each token finds one, which a negative number says, too."""
    name = "expert_capacity_factor"
    written = reading.get(f"moe_{name}", name, 0)
    return (
        0.0
        if isinstance(written, int | float) and written < 0
        else float(reading.checked(name, written, f"moe_{name}"))
    )


def _mixture_layers(written: Any, place: str, layers: int) -> list[int]:
    """For each layer 1 if it is a mixture: every N-th from the first, or those of a list."""
    found = listed(written, place)
    each = 1 if isinstance(found, list) else whole(found, place, least=1)
    return found[:layers] if isinstance(found, list) else [int(layer % each == 0) for layer in range(layers)]


def write_experts(out: Outgoing) -> None:
    """Mixtures of experts."""
    experts = out["number_of_experts"]
    if experts <= 1:
        return
    out.write("experts of a mixture, and of a token", num_experts=experts, moe_router_topk=out["experts_per_token"])
    out.write("hidden units of an expert", moe_ffn_hidden_size=out["expert_feedforward_dimension"])
    out.write(
        "the shared experts together",
        moe_shared_expert_intermediate_size=out["shared_experts_feedforward_dimension"] or None,
    )
    if out["matrix_precision"] not in ("fp16", "fp32", "tf32"):  # fp8 and fp4 are written beside bf16
        out.write("one grouped product for the experts of an accelerator", moe_grouped_gemm=True)
    marks = mixture_marks(out)
    if 0 < sum(marks) < len(marks):
        out.write(
            f"{sum(marks)} of {len(marks)} layers are mixtures",
            moe_layer_freq="(" + "+".join(f"[{mark}]*{number}" for mark, number in runs(map(int, marks))) + ")",
        )
    if out["router_bias"]:
        out.write(
            "a bias of each expert in the router",
            moe_router_enable_expert_bias=True,
            moe_router_score_function="sigmoid",
        )
    out.write("places of an expert", moe_expert_capacity_factor=out["expert_capacity_factor"] or None)
    flex = bool(out["deduplicated_dispatch"])
    out.write(
        "how tokens travel to experts",
        moe_token_dispatcher_type="flex" if flex else "alltoall",
        moe_flex_dispatcher_backend="deepep" if flex else None,
    )


def mixture_marks(out: Outgoing) -> list[int]:
    """For each layer 1 if it is a mixture: as the pattern says, else the last layers, as amped assumes."""
    layers, pattern = out["layers"], out["mixture_layer_pattern"]
    known = Pattern(pattern).of(layers) if pattern else None
    number = out["number_of_MoE_layers"]
    if known is None and 0 < number < layers:
        out.lose(
            "mixture_layer_pattern",
            f"amped knows that {number} of {layers} layers are mixtures, not which; the last ones are written",
        )
    return [0] * (layers - number) + [1] * number if known is None else [int(mark) for mark in known]


def listed(written: Any, place: str) -> int | list[int]:
    """A number, or a list of zeros and ones like ([0]*3+[1]*58), which is read and not evaluated.

    Raises:
        ConfigError: for another text.
    """
    try:
        found: int | list[int] = _value(ast.parse(str(written), mode="eval").body)
        if isinstance(found, list) and not set(found) <= {0, 1}:
            raise ValueError(found)
    except (SyntaxError, TypeError, ValueError, RecursionError, MemoryError):
        told = f"{quoted(written)} is neither a number nor a list of 0 and 1"
        raise ConfigError(Problem(told, place, "like 2 or ([0]*3+[1]*58)")) from None
    return found


def _value(node: ast.expr) -> Any:
    """The value of numbers, lists, sums of lists and repetitions of them.

    Raises:
        ValueError: for anything else, or a list that is too long.
    """
    if isinstance(node, ast.Constant) and isinstance(node.value, int) and abs(node.value) < LONGEST:
        return int(node.value)
    if isinstance(node, ast.List | ast.Tuple):
        return [int(_value(each)) for each in node.elts]
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Add | ast.Mult):
        one, other = _value(node.left), _value(node.right)
        size = len(one) * other if isinstance(one, list) and isinstance(other, int) else 0
        if isinstance(node.op, ast.Mult) and 0 <= size < LONGEST and isinstance(one, list):
            return one * other
        if isinstance(node.op, ast.Add) and isinstance(one, list) and isinstance(other, list):
            return one + other
    raise ValueError(ast.dump(node)[:40])


LONGEST = 100_000
RULES = {
    "heads": Rule(read_heads, write_heads), "vocabulary": Rule(read_vocabulary, write_vocabulary), "biases": Rule(read_biases, write_biases),
    "positions": Rule(read_positions, write_positions), "dropout": Rule(read_dropout, write_dropout),
    "windows": Rule(read_windows, write_windows), "experts": Rule(read_experts, write_experts),
}  # fmt: skip
