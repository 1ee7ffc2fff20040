"""Pairs: a better machine is never slower, more work never faster; and a switch that hides messages never costs time."""

from collections.abc import Iterator
from random import Random
from typing import Any

from amped.base.errors import AmpedError
from amped.estimation.gate import ROUNDING
from amped.library import Estimate
from tests.campaigns.answers import wrong_estimate, wrong_refusal
from tests.campaigns.records import Case, Kind, Seen
from tests.campaigns.runs import SWITCHES, asked, drawn_run

# More of these is a better machine.
BETTER = (
    "bf16_peak_flop_rate", "fp16_peak_flop_rate", "memory_bandwidth", "vector_flop_rate", "inter_accelerator_bandwidth", "bandwidth_per_network_card",
    "number_of_network_cards_per_node", "host_link_bandwidth", "host_memory_bandwidth", "matrix_efficiency", "inter_accelerator_efficiency",
    "inter_node_efficiency", "gemm_sustained_fraction", "medium_tile_efficiency", "small_tile_efficiency", "smallest_tile_efficiency",
    "memory_bandwidth_efficiency", "attention_forward_efficiency", "attention_backward_efficiency", "tree_bandwidth_fraction",
)  # fmt: skip
# More of these is more work, or a heavier burden.
WORSE = (
    "inter_accelerator_latency", "inter_node_latency", "host_time_per_layer", "host_time_per_step", "kernel_launch_time", "context",
    "feedforward_dimension", "expert_feedforward_dimension", "vocabulary_size", "batch_size", "layers", "dimensionality",
    "overlap_slowdown_fraction", "oversubscription", "flops_per_nonlinear_operation", "exposed_bubble_fraction", "gemm_ramp_depth",
    "wave_quantization", "bandwidth_ramp_bytes", "kernel_overhead_time", "attention_ramp_length", "exposed_softmax_fraction",
    "inter_accelerator_ramp_bytes", "inter_node_ramp_bytes", "collective_overhead_time",
)  # fmt: skip
# What grows with another: a network its heads and its mixtures.
TOGETHER = {"layers": ("number_of_MoE_layers",), "dimensionality": ("head_dimension",)}
# Sizes grow to their multiples: kernels for odd sizes may be slower than those for larger, even ones.
TIMES = (2, 4, 8)
LAYOUT = "pipeline_layout"
# Fractions that may interfere with what is hidden.
NOTHING_INTERFERES = {
    "overlap_slowdown_fraction": 0.0, "expert_exchange_processor_fraction": 0.0, "host_waits_for_dispatch": 0.0,
}  # fmt: skip


def draw_pairs(random: Random) -> Case:
    changes = [[name, random.choice(TIMES)] for name in random.sample((*BETTER, *WORSE), 16)]
    return {"given": drawn_run(random), "changes": changes}


def run_pairs(case: Case) -> Seen:
    return _beside(case.get("given", {}), lambda base: _changed(base, case))


def _changed(base: Estimate, case: Case) -> Iterator[tuple[Case, str, int]]:
    """The values of each changed run, what was changed, and whether the step may become longer (1) or shorter (-1).

    The mapping stays: also a layout of the pipeline that amped found for the base. With several chunks on a stage amped finds a
    layout that no layout near it beats, and may find a slightly better one for another run.
    """
    layout = _layout(base)
    for entry in case.get("changes", []):
        name, times = [*entry, 2][:2]
        if name not in base or not base[name] > 0 or (layout and name == "layers"):
            continue
        most = max(base[name], 1.0) if name.endswith(("_fraction", "_efficiency")) else float("inf")
        grown = {n: min(base[n] * times, most) for n in (name, *TOGETHER.get(name, ())) if n in base and base[n] > 0}
        yield case["given"] | layout | grown, f"{name} times {times}", 1 if name in WORSE else -1


def _layout(base: Estimate) -> Case:
    """The layout of the pipeline that amped found, as a given one."""
    return {LAYOUT: str(base.choices[LAYOUT])} if LAYOUT in base.choices else {}


def draw_switches(random: Random) -> Case:
    return {"given": drawn_run(random) | NOTHING_INTERFERES, "switches": [*random.sample(SWITCHES, 4)]}


def run_switches(case: Case) -> Seen:
    """All switches are off, and are turned on one after the other; each step is compared with the one before it."""
    names = case.get("switches", [])
    off = case.get("given", {}) | NOTHING_INTERFERES | dict.fromkeys(names, False)
    each = [(off | dict.fromkeys(names[: n + 1], True), f"{name} turned on", -1) for n, name in enumerate(names)]
    return _beside(off, lambda base: [(on | _layout(base), *told) for on, *told in each], in_turn=True)


def _beside(given: Case, changed: Any, in_turn: bool = False) -> Seen:
    """A run, and runs that may only be longer, or only shorter; in turn: than the one before."""
    try:
        base = asked(given)
    except AmpedError as error:
        return Seen(wrong_refusal(error), answered=0, count=0)
    wrong, compared, before = wrong_estimate(base), 0, base["step_time"]
    for own, words, may in changed(base):
        try:
            step = asked(own)["step_time"]
        except AmpedError as error:
            wrong = wrong or wrong_refusal(error)
            continue
        compared += 1
        slower, faster = step > before * (1 + ROUNDING), step * (1 + ROUNDING) < before
        if (may < 0 and slower) or (may > 0 and faster):
            wrong = (
                wrong
                or f"{words.partition(' ')[0]} makes a step {'longer' if slower else 'shorter'}: {words}, {before} becomes {step}"
            )
        before = step if in_turn else before
    return Seen(wrong, answered=compared, count=compared)


PAIRS = Kind("pairs", draw_pairs, run_pairs, hourly=60_000, slice=12)
SWITCHED = Kind("switches", draw_switches, run_switches, hourly=10_000, slice=6)
