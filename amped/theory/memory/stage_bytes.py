"""The bytes of one pipeline stage, from the formulas for all stages."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from amped.theory.memory.stages import stage_activations, stage_states, working_bytes
from amped.theory.stages.parameters import stage_parameters


def bytes_with(values: Mapping[str, Any], place: int, kind: int | None) -> float:
    """The bytes of a stage that has one layer of the given kind, or no layer if the kind is None.

    The stage keeps its embedding and its output head, if it has them. `values` are the values of an estimate, and
    `place` is the index of the stage.
    """
    stage = values["pipeline_stages"][place]
    layers = tuple(1.0 * (each == kind) for each in range(len(stage.kinds)))
    stages = (replace(stage, layers=1.0, kinds=layers),)
    parameters = stage_parameters(
        stages,
        values["parameter_groups"],
        values["parameter_classes"],
        values["kind_parameters"],
        values["embedding_parameters"],
        values["output_head_stage_parameters"],
        values["tied_embedding_parameters"],
        values["output_head_stage_expert_parameters"],
        values["replicated_embedding"],
    )
    held = stage_activations(
        stages,
        values["stage_microbatches_in_flight"][place : place + 1],
        values["kind_activations"],
        values["embedding_activation_bytes"],
        values["output_head_activation_bytes"],
    )
    states = stage_states(parameters, values["model_states"])[0].bytes
    working = working_bytes(
        stage, values["layer_working_bytes"], values["logits_gradient_bytes"], values["output_head_activation_bytes"]
    )
    return float(states + held[0].bytes + working + values["weight_buffer_bytes"])
