"""The bytes of one pipeline stage, from the formulas for all stages."""

from collections.abc import Callable, Mapping
from dataclasses import replace
from inspect import signature
from typing import Any

from amped.theory.memory.stages import stage_activations, stage_passing_gradients, stage_states, stage_working
from amped.theory.nouns.records import total
from amped.theory.stages.parameters import stage_parameters


def bytes_with(values: Mapping[str, Any], place: int, kind: int | None) -> float:
    """The bytes that a stage holds if it has a single layer, or no layer.

    Args:
        values: the values of an estimate by their names.
        place: the index of the stage.
        kind: the index of the kind of the layer; None for no layer.
    """
    stage = values["pipeline_stages"][place]
    layers = tuple(1.0 * (index == kind) for index in range(len(stage.kinds)))
    values = {
        **values,
        "pipeline_stages": (replace(stage, layers=1.0, kinds=layers),),
        "stage_microbatches_in_flight": values["stage_microbatches_in_flight"][place : place + 1],
    }
    values["stage_parameters"] = computed(stage_parameters, values)
    values["stage_passing_gradients"] = computed(stage_passing_gradients, values)
    parts = [computed(formula, values)[0].bytes for formula in (stage_states, stage_activations, stage_working)]
    return float(total(parts) + values["weight_buffer_bytes"])


def computed(formula: Callable[..., Any], values: Mapping[str, Any]) -> Any:
    """The value of a formula, which takes its arguments by their names from `values`."""
    return formula(*(values[name] for name in signature(formula).parameters))
