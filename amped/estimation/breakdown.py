"""Every operator of a step: its shape, work, traffic, what bounds it, its time, and how well it uses the machine."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

from amped.estimation.estimation import Estimation
from amped.theory.records import WEIGHTED, Duration, Kernels, Operator, contraction
from amped.theory.roofline.kernels import traffic_time

# Ways in which keys and values come to queries.
EXCHANGES = ("keys_and_values all_gather", "keys_and_values send_receive", "heads all_to_all")
# Which nodes a node waits for, by name; a node that the model does not have hands on what it waits for.
WAITS_FOR = {
    "embedding": (),
    "embedding_dropout": ("embedding",),
    "norm_statistics all_reduce": ("embedding_dropout",),
    "attention_norm": ("norm_statistics all_reduce",),
    "attention_input all_gather": ("attention_norm",),
    "query_key_value_inputs broadcast": ("attention_norm",),
    "query_key_value_weights broadcast": ("attention_norm",),
    "query_key_value": (
        "attention_input all_gather",
        "query_key_value_inputs broadcast",
        "query_key_value_weights broadcast",
    ),
    "query_down": ("attention_input all_gather",),
    "query_up": ("query_down",),
    "key_value_down": ("attention_input all_gather",),
    "key_value_up": ("key_value_down",),
    "projection_bias": ("query_key_value",),
    "query_absorption": ("query_up",),
    "query_key_norm": ("projection_bias", "query_absorption", "key_value_up"),
    "rotary_positions": ("query_key_norm",),
    "grid_column_keys_and_values all_gather": ("rotary_positions",),
    "keys_and_values all_gather": ("grid_column_keys_and_values all_gather",),
    "keys_and_values send_receive": ("grid_column_keys_and_values all_gather",),
    "heads all_to_all": ("grid_column_keys_and_values all_gather",),
    "attention_scores_inputs reduce": ("rotary_positions",),
    "attention_scores_weights broadcast": ("rotary_positions",),
    "attention_scores": ("rotary_positions", *EXCHANGES, "attention_scores_weights broadcast"),
    "softmax_statistics all_reduce": ("attention_scores_inputs reduce", "attention_scores"),
    "softmax": ("softmax_statistics all_reduce",),
    "attention_dropout": ("softmax",),
    "attention_values_inputs broadcast": ("attention_dropout",),
    "attention_values_weights broadcast": ("rotary_positions",),
    "attention_values": (
        "attention_dropout",
        "attention_values_inputs broadcast",
        "attention_values_weights broadcast",
    ),
    "fused_attention": ("rotary_positions", *EXCHANGES),
    "sink_scaling": ("fused_attention",),
    "value_absorption": ("attention_values", "sink_scaling"),
    "attended_heads all_to_all": ("value_absorption",),
    "head_permutation": ("attended_heads all_to_all",),
    "attention_output_inputs broadcast": ("head_permutation",),
    "attention_output_weights broadcast": ("head_permutation",),
    "attention_output": ("attention_output_inputs broadcast", "attention_output_weights broadcast"),
    "attention_output reduce_scatter": ("attention_output",),
    "attention_output all_reduce": ("attention_output reduce_scatter",),
    "attention_residual": ("attention_output all_reduce",),
    "feedforward_norm": ("attention_residual",),
    "feedforward_input all_gather": ("feedforward_norm",),
    "feedforward_up_inputs broadcast": ("feedforward_norm",),
    "feedforward_up_weights broadcast": ("feedforward_norm",),
    "feedforward_up": (
        "feedforward_input all_gather",
        "feedforward_up_inputs broadcast",
        "feedforward_up_weights broadcast",
    ),
    "activation_function": ("feedforward_up",),
    "feedforward_down_inputs broadcast": ("activation_function",),
    "feedforward_down_weights broadcast": ("activation_function",),
    "feedforward_down": ("feedforward_down_inputs broadcast", "feedforward_down_weights broadcast"),
    "router": ("feedforward_input all_gather", "feedforward_norm"),
    "expert_choice": ("router",),
    "expert_permutation": ("expert_choice",),
    "expert_dispatch all_to_all": ("expert_permutation",),
    "expert_tensor all_gather": ("expert_dispatch all_to_all",),
    "expert_sorting": ("expert_tensor all_gather",),
    "experts_up": ("expert_sorting",),
    "expert_up_bias": ("experts_up",),
    "expert_activation": ("expert_up_bias",),
    "experts_down": ("expert_activation",),
    "expert_down_bias": ("experts_down",),
    "expert_tensor reduce_scatter": ("expert_down_bias",),
    "expert_combine all_to_all": ("expert_tensor reduce_scatter",),
    "expert_output all_gather": ("expert_combine all_to_all",),
    "shared_experts_up": ("feedforward_input all_gather",),
    "shared_activation": ("shared_experts_up",),
    "shared_experts_down": ("shared_activation",),
    "feedforward_down reduce_scatter": ("feedforward_down", "shared_experts_down"),
    "feedforward_down all_reduce": ("feedforward_down reduce_scatter",),
    "feedforward_residual": ("feedforward_down all_reduce", "expert_output all_gather"),
    "stage_send send_receive": ("feedforward_residual",),
    "multi_token_prediction_projection": ("stage_send send_receive",),
    "final_norm": ("multi_token_prediction_projection", "stage_send send_receive"),
    "output_head": ("final_norm",),
    "cross_entropy": ("output_head",),
}
CONTRACTIONS = (*WEIGHTED, "output_head_contraction", "batched_contraction")
# A kernel whose overhead is more than this share of its time is bound by its launch.
MOSTLY = 0.5
# The equation of the book, whose lines are bare.
TRAFFIC: Callable[[Operator, Kernels], float] = traffic_time


@dataclass(frozen=True)
class OperatorLine:
    """One operator in one pass on one accelerator; work, traffic and time are those of all its calls in a step.

    `bound` is compute, memory or launch; None of the numbers counts what is recomputed. `peak_fraction` is the share of
    the matrix peak; `memory_use_efficiency` the share of the peak bandwidth that compulsory traffic has (MUE).
    """

    name: str
    kind: str
    phase: str
    m: float
    n: float
    k: float
    batch: float
    count: float
    flops: float
    bytes: float
    bound: str
    time: float
    share: float
    peak_fraction: float
    memory_use_efficiency: float

    @property
    def intensity(self) -> float:
        """Flops for each byte."""
        return self.flops / self.bytes if self.bytes else 0.0


def gemm_lines(estimation: Estimation) -> list[OperatorLine]:
    """All matrix products of a step; recomputed ones are not listed again, their time is `recomputation_time`."""
    calls = (
        ("layer_operators", _calls(estimation, "layer")),
        ("output_head_operators", _calls(estimation, "output_head")),
    )
    found = [line for name, times in calls for line in _lines(estimation, name, times)]
    return [line for line in found if line.kind in CONTRACTIONS]


def layer_lines(estimation: Estimation) -> list[OperatorLine]:
    """All operators of one layer for one micro-batch in the order in which they run forward, each with its gradients."""
    order = list(WAITS_FOR)
    return sorted(_lines(estimation, "layer_operators", 1.0), key=lambda line: _place(line.name, order))


def step_lines(estimation: Estimation) -> list[OperatorLine]:
    """All operators of a step but the optimizer's, each on a stage that has it."""
    parts = ("embedding", "layer", "output_head")
    return [line for part in parts for line in _lines(estimation, f"{part}_operators", _calls(estimation, part))]


def _place(name: str, order: list[str]) -> int:
    """Where an operator runs forward; casts before their product, what runs backward alone at the end."""
    known = name.removesuffix("_casts")
    return order.index(known) if known in order else len(order)


def _calls(e: Estimation, part: str) -> float:
    """Times that an accelerator runs a layer, or that of an end stage the embedding or head, forward in a step."""
    if part == "layer":
        return e["layer_passes"] if e.choices["performance_model"] == "amped" else e["bottleneck_stage_layer_passes"]
    spread = e["pipeline_parallel_degree"] if e.choices["performance_model"] == "amped" else 1.0
    return e["number_of_microbatches_per_minibatch"] / spread


def _lines(e: Estimation, name: str, calls: float) -> Iterator[OperatorLine]:
    closed = e.choices["performance_model"] == "amped"
    operators = _products(e) if closed and name == "layer_operators" else e.results.records(name)
    times = _closed_times(e, operators) if closed else e.results.records(name.replace("operators", "durations"))
    whole = e["step_time"] if calls != 1.0 else sum(d.time * d.count for d in times) or 1.0
    for operator, duration in zip(operators, times, strict=True):
        number = operator.count * calls
        if number and operator.bytes:
            yield _line(e, operator, duration, number, whole, closed)


def _products(e: Estimation) -> tuple[Operator, ...]:
    """All products of a layer, those of attention too, whatever kernel computes them: what the closed form times."""
    calls = {"projection_gemms": "attentions_per_layer", "attention_gemms": "attentions_per_layer",
             "feedforward_gemms": "dense_fraction", "expert_gemms": "MoE_fraction"}  # fmt: skip
    entry = (e["flops_per_multiply_accumulate"], e["activation_precision"], e["activation_precision"])
    return tuple(
        operator
        for name, count in calls.items()
        for gemm in e.results.records(name)
        for operator in contraction(gemm, *entry, None, 0.0, e[count])
    )


def _closed_times(e: Estimation, operators: tuple[Operator, ...]) -> list[Duration]:
    """The closed form times products only, all at one rate."""
    found = []
    for o in operators:
        passes = (
            "gradient_multiply_accumulate_bit_slices"
            if o.phase == "input_gradient"
            else "multiply_accumulate_bit_slices"
        )
        one = e["multiply_accumulate_time"] * e[passes] / e["flops_per_multiply_accumulate"]
        time = o.flops * one if o.kind in CONTRACTIONS else 0.0
        found.append(Duration(o.name, o.kind, o.phase, time, o.kernels, o.count))
    return found


def _line(e: Estimation, o: Operator, duration: Duration, calls: float, whole: float, closed: bool) -> OperatorLine:
    peak, bandwidth, time = e["matrix_peak_flop_rate"], e["memory_bandwidth"], duration.time
    bound = _closed_bound(o, peak / bandwidth) if closed else _bound(o, time, e.results.records("kernel_rates")[0])
    return OperatorLine(
        o.name, o.kind, o.phase, o.m, o.n, o.k, o.batch, calls, o.flops * calls, o.bytes * calls, bound, time * calls,
        time * calls / whole, o.flops / (time * peak) if time else 0.0, o.bytes / (time * bandwidth) if time else 0.0,
    )  # fmt: skip


def _closed_bound(o: Operator, balance: float) -> str:
    return "compute" if o.flops >= o.bytes * balance else "memory"


def _bound(o: Operator, time: float, rates: Kernels) -> str:
    """What the kernel waits for: its overhead, its traffic, or its work."""
    if rates.overhead > MOSTLY * time:
        return "launch"
    return "memory" if TRAFFIC(o, rates) >= (time - rates.overhead) * (1 - 1e-9) else "compute"
