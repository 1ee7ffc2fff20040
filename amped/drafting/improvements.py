"""What would make a step faster: one change at a time, each estimated."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from amped.base.errors import AmpedError
from amped.configuring.scenario import Scenario, asked_again
from amped.drafting.fastest import FITS, KEEPS
from amped.estimation.estimation import Estimation, estimated
from amped.pipeline_layouts.laying_out import LAYOUT
from amped.theory.language.quantity import ACCELERATOR

# Switches that may be off, and the degrees that may be halved or doubled.
SWITCHES = (
    "flash_attention", "sequence_parallel", "overlap_data_communication", "overlap_tensor_communication",
    "overlap_pipeline_communication", "overlap_expert_communication",
)  # fmt: skip
DEGREES = ("tensor_parallel_degree", "pipeline_parallel_degree", "expert_parallel_degree", "microbatch_size",
           "virtual_pipeline_stages")  # fmt: skip
LESS_AGAIN = {
    "full": ("selective", "none"),
    "selective": ("none",),
    "block": ("none", "selective"),
    "kept_products": ("none",),
}
# Changes with which the stages and chunks of a pipeline are others, so that the layers are laid out anew.
ANEW = ("pipeline_parallel_degree", "virtual_pipeline_stages")
# A change that gains less is not worth a word.
LEAST_GAIN = 0.01
Value = float | str | bool


@dataclass(frozen=True)
class Improvement:
    """One change, and the estimate with it.

    Attributes:
        name, value: the parameter that is changed, and what it becomes.
        step_time: of a step with the change; `gain` the share of today's step that it saves.
        bytes: memory that the fullest accelerator then needs.
    """

    name: str
    value: Value
    step_time: float
    gain: float
    bytes: float


def improvements(scenario: Scenario, estimate: Estimation) -> list[Improvement]:
    """The changes of one parameter with which a step is faster and fits in memory, the fastest first.

    If the estimate leaves the headroom free, changes that do not are left out.
    """
    tried = (_tried(scenario, estimate, name, value) for name, value in _changes(estimate))
    return sorted(filter(None, tried), key=lambda improvement: improvement.step_time)


def _tried(scenario: Scenario, estimate: Estimation, name: str, value: Value) -> Improvement | None:
    """The improvement by one change; None if the result cannot run, does not fit, loses the headroom, or saves less than `LEAST_GAIN`.

    The layout of the stages is kept unless the change needs a new one, because finding one takes seconds.
    """
    held = {} if name in ANEW else {n: text for n, text in estimate.choices.items() if n == LAYOUT}
    try:
        changed = estimated(asked_again(scenario.question, {**held, name: value}))
    except AmpedError:
        return None
    gain = 1 - changed["step_time"] / estimate["step_time"]
    if gain < LEAST_GAIN or any(changed[name] < estimate[name] for name in (FITS, KEEPS)) or not changed[FITS]:
        return None
    memory = changed["memory_per_accelerator_bytes"]
    return Improvement(name, value, step_time=changed["step_time"], gain=gain, bytes=memory)


def _changes(e: Estimation) -> Iterator[tuple[str, Value]]:
    """The changes to try, each as the name of a parameter and its new value."""
    part = e.scenario.sources.rows.get(ACCELERATOR)
    if part is not None and "fp8_peak_flop_rate" in part.columns and e.choices["matrix_precision"] in ("fp16", "bf16"):
        yield "matrix_precision", "fp8"
    yield from (
        ("activation_recomputation", mode) for mode in LESS_AGAIN.get(e.choices["activation_recomputation"], ())
    )
    yield from ((name, True) for name in SWITCHES if name in e and not e[name])
    if e.choices.get("cuda_graph_scope") == "none":
        yield "cuda_graph_scope", "router" if e.choices.get("feedforward_kind") == "mixture" else "layer"
    stages = e.scenario.offered_zero_stages
    yield from (("zero_stage", stage) for stage in stages if stage and stage != e["zero_stage"])
    for name in DEGREES:
        if name in e:
            yield from ((name, degree) for degree in (int(e[name]) // 2, int(e[name]) * 2) if degree >= 1)
