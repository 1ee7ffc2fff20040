"""The names that the contract promises: results, parts of a step and of the memory, parallelisms."""

KINDS = ("data", "tensor", "pipeline", "context", "expert")

CONTRACT = (
    "training_time", "step_time", "number_of_steps", "tokens_per_second_per_accelerator",
    "model_flop_rate_per_accelerator", "hardware_flop_rate_per_accelerator", "model_flops_utilization",
    "hardware_flops_utilization", "memory_per_accelerator_bytes", "weight_bytes", "gradient_bytes",
    "optimizer_state_bytes", "activation_bytes", "temporary_bytes", "fits_in_memory", "largest_microbatch_size",
    "number_of_parameters", "active_parameters", "energy", "cost", "electricity_cost", "carbon_emissions",
)  # fmt: skip
CONTRACT_PARTS = {
    "compute_forward_time", "compute_backward_time", "recomputation_time", "weight_update_time", "optimizer_time",
    "exposed_tensor_communication_time", "exposed_pipeline_communication_time", "exposed_data_communication_time",
    "exposed_context_communication_time", "exposed_expert_communication_time", "pipeline_bubble_time",
}  # fmt: skip
# A part that the contract does not name, and that is nothing where nothing is offloaded.
OFFLOAD_PART = "exposed_offload_communication_time"
MEMORY_PARTS = ("weight_bytes", "gradient_bytes", "optimizer_state_bytes", "activation_bytes", "temporary_bytes")
RATES = ("hardware_flop_rate_per_accelerator", "model_flop_rate_per_accelerator")
