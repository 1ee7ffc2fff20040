"""What is not modeled, as a bound on time and memory.

An entry has two sides. What amped counts in its place may cost nothing: its share is a. And the thing itself may cost, on
top of all that is counted, its own size: its share is b. Both are shares of what is counted. The truth is between 1 - a and
1 + b, and the bound e = max(a / (1 - a), b) says so in the form of an error band: between value / (1 + e) and value * (1 + e).

| share of | what is counted in its place (a) | the thing itself (b) |
|---|---|---|
| products | multiply-accumulates of the part in these layers, all scores counted | its own, for tokens and for pairs of them |
| bytes | bytes that the operators of the part read and write | its parameters and values |
| parameters | parameters of the part in these layers | its own |
| kept | bytes that the operators of the part keep for the backward pass | its values |
| step | parts of a step's time that it may save | parts that it may add once more |
| held | parts of an accelerator's memory that it may save | parts that it may add once more; its bytes |

Time has the largest bound of products, bytes and parameters (which are gathered and reduced), beside that of the step; memory
that of parameters and of what is kept, beside that of what is held. Several entries add up. Assumes that what is not modeled
runs as efficiently as what is.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

from amped.base.errors import ConfigError, quoted
from amped.base.record import dataclass
from amped.configuring.not_modeled import KEY, WHOLE_WEIGHTS, NotModeled
from amped.engine.evaluate import Results
from amped.estimation.parts import HIDDEN_PARTS, MEMORY_PARTS, STEP_PARTS
from amped.estimation.uncertainty import ErrorBand

# Above this bound the first line of every answer says NOT MODELED.
TOLD_FIRST = 0.25
TIME, MEMORY = ("products", "bytes", "parameters"), ("parameters", "kept")
# What is a share of the whole time or memory, and so adds to each of the others.
OF_ALL = {TIME: "step", MEMORY: "held"}
# For each part that may be touched: the records of its operators, and the quantity that counts its layers.
OPERATORS = {
    "attention_core": (("attention_core_operators",), "number_of_attention_layers"),
    "attention": (
        ("projection_operators", "query_key_norm_operators", "rotary_operators", "attention_core_operators", "attention_output_operators"),
        "number_of_attention_layers",
    ),
    "dense_feedforward": (("feedforward_operators",), "number_of_dense_layers"),
    "mixture": (("routing_operators", "routed_expert_operators", "shared_expert_operators"), "number_of_MoE_layers"),
    "shared_experts": (("shared_expert_operators",), "number_of_MoE_layers"),
    "layer": (("layer_operators",), "layers"), "norms": (("norm_operators",), "layers"),
    "quantization": (("quantization_operators",), "layers"),
}  # fmt: skip


# Parts whose kernels pass over memory once, so that their time is a share of that of all kernels; and the parts of a step that
# are this time.
STREAMED = ("norms", "quantization")
COMPUTED = ("compute_forward_time", "compute_backward_time", "recomputation_time", "weight_update_time")
PARTS = (*STEP_PARTS, *HIDDEN_PARTS, *MEMORY_PARTS)


class Share(NamedTuple):
    """Two sizes as shares of what is counted: what is counted in place of a thing (a), and the thing itself (b)."""

    counted: float
    own: float


@dataclass(frozen=True)
class Bound:
    """A part that is not modeled, and how far it may move an estimate.

    Attributes:
        what: the part in words.
        shares: a share for each kind of the table in the head of the module; empty if there is no bound.
    """

    what: str
    shares: Mapping[str, Share]

    @property
    def share(self) -> float:
        """The largest share of products, bytes, parameters or the step that the part touches; infinite without a bound."""
        return max(max(_with_share_of_whole(self.shares, kind, TIME)) for kind in TIME) if self.shares else math.inf

    @property
    def on_time(self) -> float:
        """The largest relative error of the step's time that the part may cause; infinite without a bound."""
        return _largest_bound(self.shares, TIME)

    @property
    def on_memory(self) -> float:
        """The largest relative error of the memory of an accelerator that the part may cause; infinite without a bound."""
        return _largest_bound(self.shares, MEMORY)

    @property
    def memory_on_top(self) -> float:
        """The largest share of memory that the part may need in addition to all that is counted; infinite without a bound."""
        return max(_with_share_of_whole(self.shares, kind, MEMORY).own for kind in MEMORY) if self.shares else math.inf

    def __str__(self) -> str:
        if not self.shares:
            return f"{self.what} (no bound)"
        return f"{self.what} (time {_percent(self.on_time)}, memory {_percent(self.on_memory)})"

    def to_dict(self) -> dict[str, Any]:
        """The bound as plain data; a number is None if there is no bound."""
        numbers = {"share": self.share, "bound_on_time": self.on_time, "bound_on_memory": self.on_memory}
        return {"what": self.what, **{name: value if value < math.inf else None for name, value in numbers.items()}}


def _percent(error: float) -> str:
    """A relative error as text, at least 0.1 %; "any share" if it is infinite."""
    return "any share" if error == math.inf else f"± {max(error * 100, 0.1):.{1 if error < 0.01 else 0}f} %"


def bound(share: Share) -> float:
    """The relative error that a share may cause, max(a / (1 - a), b); infinite if all is counted in its place.

    Source: the head of the module.
    """
    return max(share.counted / (1 - share.counted), share.own) if share.counted < 1 else math.inf


def _largest_bound(shares: Mapping[str, Share], kinds: tuple[str, ...]) -> float:
    """The largest error bound that the shares of some kinds give; infinite if `shares` is empty.

    Args:
        shares: the share for each kind.
        kinds: `TIME` or `MEMORY`.
    """
    return max(bound(_with_share_of_whole(shares, kind, kinds)) for kind in kinds) if shares else math.inf


def _with_share_of_whole(shares: Mapping[str, Share], kind: str, kinds: tuple[str, ...]) -> Share:
    """The share of one kind, plus the share of the whole time ("step") or of the whole memory ("held").

    Args:
        shares: the share for each kind.
        kind: one of `kinds`.
        kinds: `TIME` or `MEMORY`.
    """
    return _sum((shares[kind], shares[OF_ALL[kinds]]))


def together(bounds: Sequence[Bound]) -> Bound | None:
    """One bound for all parts that are not modeled together: their shares are added; None if everything is modeled."""
    shares = [bound.shares for bound in bounds]
    kinds = shares[0] if shares and all(shares) else ()
    what = "; ".join(bound.what for bound in sorted(bounds, key=lambda bound: -bound.on_time))
    return Bound(what, {kind: _sum(s[kind] for s in shares) for kind in kinds}) if bounds else None


def _sum(shares: Iterable[Share]) -> Share:
    return Share(*map(sum, zip(*shares, strict=True)))


def with_bound(band: ErrorBand | None, error: float | None) -> ErrorBand | None:
    """An error band, widened by the relative error of parts that are not modeled; unchanged if either is None."""
    if band is None or error is None:
        return band
    return replace(band, error_fraction=(1 + band.error_fraction) * (1 + error) - 1)


def bounds_of(results: Results, entries: Sequence[NotModeled]) -> list[Bound]:
    """The bounds of the entries that are not modeled, for the results of one estimate."""
    counted = _counted(results) if entries else {}
    return [Bound(entry.what, _shares(results, entry, counted) if entry.is_bounded else {}) for entry in entries]


# --- sizes -----------------------------------------------------------------------------------------------------------


def core_products(context: float, attention_heads: float, head_dimension: float, value_head_dimension: float) -> float:
    """The multiply-accumulates of scores and weighted values of one layer for a token, all scores counted.

    Source: arXiv 2104.04473, appendix.
    """
    return context * attention_heads * (head_dimension + value_head_dimension)


def network_products(results: Results) -> float:
    """The multiply-accumulates of the whole network for one token in a forward pass.

    Each active parameter but those of embeddings is one. Those of scores and weighted values are added; in windowed
    layers only those in the window. Source: arXiv 2001.08361, section 2.1.
    """
    number = results.number
    matrices = number("active_parameters") - number("embedding_parameters")
    head = number("tied_embeddings") * number("vocabulary_size") * number("dimensionality")
    window = number("effective_attention_window") / number("document_tokens")
    share_of_scores = 1 - number("windowed_layer_fraction") * (1 - window)
    cores = number("number_of_attention_layers") * share_of_scores * _core(results)
    return matrices + head + cores + _chunk_products(results)


def _chunk_products(results: Results) -> float:
    """The multiply-accumulates within the chunks of linear attention, of all layers, for a token."""
    layers, tokens = (results.number(name) for name in ("number_of_linear_attention_layers", "microbatch_tokens"))
    works = results.records("linear_scan_work") if layers else ()
    split = results.number("tensor_parallel_rows") if layers else 1.0
    return float(sum(work.multiply_accumulates for work in works) * layers * split / tokens) if layers else 0.0


def _core(results: Results) -> float:
    """The multiply-accumulates of scores and weighted values of one layer for a token, from the sizes of the network."""
    sizes = ("context", "attention_heads", "head_dimension", "value_head_dimension")
    return core_products(*map(results.number, sizes))


def _part_parameters(results: Results, part: str) -> tuple[float, float]:
    """The number of parameters of a part of one layer, and how many of them a token uses.

    A whole layer has the larger of the dense MLP and the mixture of experts.
    """
    shared, expert = results.number("router_and_shared_expert_parameters"), results.number("expert_parameters")
    kinds = {
        **dict.fromkeys(("attention_core", "norms", "quantization"), (0.0, 0.0)),
        "shared_experts": (shared,) * 2,
        "attention": (results.number("attention_parameters"),) * 2,
        "dense_feedforward": (results.number("feedforward_parameters"),) * 2,
        "mixture": (
            shared + results.number("number_of_experts") * expert,
            shared + results.number("experts_per_token") * expert,
        ),
    }
    if part in kinds:
        return kinds[part]
    fuller = max(kinds["dense_feedforward"], kinds["mixture"])
    return kinds["attention"][0] + fuller[0], kinds["attention"][1] + fuller[1]


def _counted(results: Results) -> dict[str, float]:
    """The counted size of the whole network, for each kind of share: the denominators of the shares."""
    moved, kept = _operator_bytes(results, ("layer_operators",))
    number = results.number("layers")
    return {
        "products": network_products(results), "bytes": moved * number, "parameters": results.number("number_of_parameters"),
        "kept": kept * number, "step": results.number("step_time"), "held": results.number("memory_per_accelerator_bytes"),
    }  # fmt: skip


def _operator_bytes(results: Results, names: Iterable[str]) -> tuple[float, float]:
    """The bytes that some operators of an average layer read and write, and the bytes that they keep for the backward pass."""
    operators = [o for name in names if name in results.cells for o in results.records(name)]
    return sum((o.read + o.written) * o.count for o in operators), sum(o.stash * o.count for o in operators)


def _shares(results: Results, entry: NotModeled, counted: Mapping[str, float]) -> dict[str, Share]:
    """The share of an entry for each kind in `counted`."""
    saved, added = _of_parts(results, entry.saves), _of_parts(results, entry.adds)
    in_place, itself = _of_layers(results, entry.touches, entry.layers) if entry.touches else {}, _own(results, entry)
    return {
        kind: Share((in_place.get(kind, 0) + saved[kind]) / whole, (itself.get(kind, 0) + added[kind]) / whole)
        for kind, whole in counted.items()
    }


def _of_parts(results: Results, shares: Mapping[str, float]) -> dict[str, float]:
    """The total size of shares of parts, for each kind of share.

    Args:
        results: the results of the estimate.
        shares: for each part (of a layer, of a step's time or of memory), the share of its size that is summed.
    """
    sizes = [(_part(results, part), share) for part, share in shares.items()]
    kinds = (*TIME, *MEMORY, *OF_ALL.values())
    return {kind: sum(size.get(kind, 0.0) * share for size, share in sizes) for kind in kinds}


def _part(results: Results, part: str) -> dict[str, float]:
    """The sizes of one part (of all layers, of a step's time or of memory), by the kind of share.

    Raises:
        ConfigError: for an unknown part.
    """
    if part in STREAMED:
        return _streamed(results, part)
    if part in OPERATORS:
        return _of_layers(results, part, results.number(OPERATORS[part][1]))
    if part == WHOLE_WEIGHTS:
        degrees = results.number("tensor_parallel_degree") * results.number("pipeline_parallel_degree")
        return {"held": results.number("number_of_parameters") * results.number("weight_precision") / degrees}
    if part not in PARTS:
        raise ConfigError(
            f"{KEY}: {quoted(part)} is no part of a step's time or of memory", f"one of {', '.join(PARTS)}"
        )
    return {"held" if part in MEMORY_PARTS else "step": results.number(part)}


def _streamed(results: Results, part: str) -> dict[str, float]:
    """The sizes of a part whose kernels pass over memory once: its time in a step, and the bytes that it keeps."""
    names, _ = OPERATORS[part]
    operators = {o.name for name in names for o in results.records(name)}
    durations = results.records("layer_durations")
    share = sum(d.time * d.count for d in durations if d.name in operators) / sum(d.time * d.count for d in durations)
    computed = sum(results.number(name) for name in COMPUTED)
    return {"step": share * computed, "kept": _operator_bytes(results, names)[1] * results.number("layers")}


def _of_layers(results: Results, part: str, layers: float) -> dict[str, float]:
    """The counted sizes of a part in `layers` layers, by the kind of share."""
    names, kind = OPERATORS[part]
    parameters, active = _part_parameters(results, part)
    core = _core(results) if part in ("attention_core", "attention", "layer") else 0.0
    moved, kept = _operator_bytes(results, names)
    of_layers = layers / results.number(kind) if results.number(kind) else 0.0
    return {
        "products": (active + core) * layers, "bytes": moved * results.number("layers") * of_layers,
        "parameters": parameters * layers, "kept": kept * results.number("layers") * of_layers,
    }  # fmt: skip


def _own(results: Results, entry: NotModeled) -> dict[str, float]:
    """The sizes of an entry itself, by the kind of share.

    Bytes are those of a micro-batch on one accelerator; tensor-parallel ranks share them evenly.
    """
    number, ranks = results.number, results.number("tensor_parallel_degree")
    values = entry.values_of_a_token * number("microbatch_size") * number("context") / number("context_parallel_degree")
    of_a_token = entry.products_of_a_token + entry.products_of_a_pair * number("context")
    return {
        "products": entry.parameters + of_a_token, "parameters": entry.parameters,
        "bytes": (3 * entry.parameters * number("weight_precision") + 6 * values * number("activation_precision")) / ranks,
        "kept": values * number("activation_precision") / ranks, "held": entry.bytes_of_an_accelerator,
    }  # fmt: skip
