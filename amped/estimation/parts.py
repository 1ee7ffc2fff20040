"""The parts that a step's time and an accelerator's memory are made of, by name."""

from amped.theory.nouns.parallelisms import PARALLELISMS

COMMUNICATIONS = (*PARALLELISMS, "offload")
STEP_PARTS = (
    "compute_forward_time", "compute_backward_time", "recomputation_time", "weight_update_time", "optimizer_time",
    *(f"exposed_{kind}_communication_time" for kind in COMMUNICATIONS), "pipeline_bubble_time",
)  # fmt: skip
HIDDEN_PARTS = tuple(f"hidden_{kind}_communication_time" for kind in COMMUNICATIONS)
MEMORY_PARTS = ("weight_bytes", "gradient_bytes", "optimizer_state_bytes", "activation_bytes", "temporary_bytes")
