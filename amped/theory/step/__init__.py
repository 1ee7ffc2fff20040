"""The parts of a step, and what follows for the whole training.

The chapter takes times per layer, passes of the bottleneck stage, and the bubble. It hands on the results of an
estimate.

    step_time     = computation + recomputation + optimizer + exposed communication + bubble
    training_time = number_of_steps × step_time / goodput_fraction

The page `parts` multiplies times per layer with the passes of the bottleneck stage. The pages `data_overlap`
and `host_copies` use the time that layers leave free. The page `flops` counts the operations that a training needs, and
those that it does; `waterfall` cuts computation into what is lost below the peak rate. The page `totals` gives time and
utilization. The pages `checkpoints`, `failures` and `goodput` give the share of the days that trains, and the pages
`cost` and `owning` energy and money.
"""

PAGES = (
    "parts",
    "data_overlap",
    "uneven_replicas",
    "host_copies",
    "flops",
    "waterfall",
    "totals",
    "checkpoints",
    "failures",
    "goodput",
    "cost",
    "owning",
)

# What other chapters and rooms may name, by page; and the parameters that a config lists.
HANDS_ON = (
    # parts
    "tied_embedding_communication_time",
    "compute_forward_time",
    "compute_backward_time",
    "weight_update_time",
    "recomputation_time",
    "host_wait_time",
    "weight_slicing_time",
    "optimizer_time",
    "exposed_tensor_communication_time",
    "hidden_tensor_communication_time",
    "hidden_context_communication_time",
    "hidden_expert_communication_time",
    "exposed_context_communication_time",
    "exposed_expert_communication_time",
    "hidden_pipeline_communication_time",
    "exposed_pipeline_communication_time",
    "hidden_data_communication_time",
    "exposed_data_communication_time",
    "exposed_bucket_time",
    "data_slowdown_time",
    # data_overlap
    "free_backward_time",
    "gradient_communication_time",
    "weight_communication_time",
    "overlapped_gradient_communication_time",
    "sharded_weight_window_time",
    "overlapped_weight_communication_time",
    "data_exchanges_of_other_stages_time",
    # host_copies
    "hidden_offload_communication_time",
    "exposed_offload_communication_time",
    # flops
    "layer_multiply_accumulates",
    "attention_multiply_accumulates",
    "output_head_multiply_accumulates",
    "model_flops_per_accelerator",
    "hardware_flops_per_accelerator",
    # waterfall
    "step_kernel_groups",
    "peak_time",
    "uncounted_work_time",
    "clock_loss_time",
    "product_loss_time",
    "attention_loss_time",
    "other_kernel_time",
    "kernel_wait_time",
    # totals
    "step_time",
    "training_time",
    "tokens_per_second_per_accelerator",
    "model_flop_rate_per_accelerator",
    "hardware_flop_rate_per_accelerator",
    "model_flops_utilization",
    "hardware_flops_utilization",
    "model_flops_utilization_counting_all_scores",
    "model_flops_utilization_counting_causal_scores",
    "hardware_flops_utilization_counting_all_scores",
    "hardware_flops_utilization_counting_causal_scores",
    # checkpoints
    "checkpoint_bytes",
    # failures
    "time_between_failures",
    "interruption_factor",
    # goodput
    "evaluation_fraction",
    "goodput_fraction",
    # cost
    "average_power_per_accelerator",
    "energy",
    "cost",
    "electricity_cost",
    "carbon_emissions",
    "cooling_water",
    # owning
    "owning_price",
    "owning_cost",
    "break_even_use_fraction",
    "token_cost",
)
