"""What records tell of a pipeline stage of an estimate."""

import amped

RECORDS = {
    "state_bytes": ("stage_states", "bytes"),
    "activation_bytes": ("stage_activations", "bytes"),
    "microbatches_in_flight": ("stage_microbatches_in_flight", "layers"),
}
PLACES = {"first": 0, "middle": 1, "last": -1}


def of_stage(e: amped.Estimate, place: str, what: str) -> float:
    """The parameters (shared ones), state_bytes, activation_bytes or microbatches_in_flight of a stage."""
    if what == "parameters":
        stage = e.results.records("stage_parameters")[PLACES[place]]
        return float(stage.shared(e.results.records("parameter_classes")))
    name, field = RECORDS[what]
    return float(getattr(e.results.records(name)[PLACES[place]], field))


def working_bytes(e: amped.Estimate, has_output_head: bool) -> float:
    """Bytes beside states and kept activations: of a layer, or of the loss, whose own are gone when a layer goes back."""
    layer, head = e["layer_working_bytes"], e["output_head_activation_bytes"]
    return max(layer - head, e["logits_gradient_bytes"]) if has_output_head else layer


def bottleneck(e: amped.Estimate) -> str:
    """The stage that paces the pipeline: first, last or both for the ends that it has, else middle."""
    (stage,) = e.results.records("bottleneck_stage")
    ends = {(0, 0): "middle", (1, 0): "first", (0, 1): "last", (1, 1): "both"}
    return ends[stage.has_embedding, stage.has_output_head]
