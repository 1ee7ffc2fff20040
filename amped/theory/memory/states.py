"""States of each pipeline stage, on the accelerator: weights, gradients, and what the optimizer keeps, by ZeRO stage."""

from amped.theory.quantity import family, quantity


@family(EXPERT_=("", "expert_"))
@quantity("byte")
def state_bytes_per_EXPERT_parameter(
    weight_precision,
    gradient_precision,
    optimizer_states_per_parameter,
    optimizer_state_precision,
    EXPERT_weight_shards,
    EXPERT_gradient_shards,
    EXPERT_optimizer_state_shards,
    weight_offload,
    gradient_offload,
    optimizer_offload,
):
    """Weight, gradient and optimizer states of a parameter on the accelerator, each shared out from its ZeRO stage on.

    Source: arXiv 1910.02054, section 5; arXiv 2101.06840 (offload). Differs: AMPeD shares out always.
    """
    states = optimizer_states_per_parameter * optimizer_state_precision / EXPERT_optimizer_state_shards
    gradients = gradient_precision / EXPERT_gradient_shards * (1 - gradient_offload)
    return weight_precision / EXPERT_weight_shards * (1 - weight_offload) + gradients + states * (1 - optimizer_offload)


@quantity("byte")
def state_bytes_per_layer(
    non_expert_parameters_per_layer, weight_split_degree, state_bytes_per_parameter, expert_state_bytes_per_layer
):
    """States of one layer on one accelerator. Source: arXiv 1910.02054, section 5."""
    return (
        non_expert_parameters_per_layer / weight_split_degree * state_bytes_per_parameter + expert_state_bytes_per_layer
    )


@quantity("byte")
def expert_state_bytes_per_layer(expert_parameters_per_layer, expert_split_degree, state_bytes_per_expert_parameter):
    """States of the routed experts of one layer on one accelerator. Source: arXiv 2006.16668."""
    return expert_parameters_per_layer / expert_split_degree * state_bytes_per_expert_parameter


@quantity("byte")
def first_stage_state_bytes(
    first_stage_parameters,
    weight_split_degree,
    state_bytes_per_parameter,
    first_stage_layers,
    expert_state_bytes_per_layer,
):
    """States that an accelerator of the first stage holds. Source: arXiv 1910.02054, section 5."""
    shared = first_stage_parameters / weight_split_degree * state_bytes_per_parameter
    return shared + first_stage_layers * expert_state_bytes_per_layer


@quantity("byte")
def middle_stage_state_bytes(
    middle_stage_parameters,
    weight_split_degree,
    state_bytes_per_parameter,
    fullest_middle_stage_layers,
    expert_state_bytes_per_layer,
):
    """States that an accelerator of a stage between first and last holds. Source: arXiv 1910.02054, section 5."""
    shared = middle_stage_parameters / weight_split_degree * state_bytes_per_parameter
    return shared + fullest_middle_stage_layers * expert_state_bytes_per_layer


@quantity("byte")
def last_stage_state_bytes(
    last_stage_parameters,
    weight_split_degree,
    state_bytes_per_parameter,
    last_stage_layers,
    expert_state_bytes_per_layer,
    multi_token_prediction_expert_parameters_per_accelerator,
    state_bytes_per_expert_parameter,
):
    """States that an accelerator of the last stage holds. Source: arXiv 1910.02054, section 5."""
    shared = last_stage_parameters / weight_split_degree * state_bytes_per_parameter
    further = multi_token_prediction_expert_parameters_per_accelerator * state_bytes_per_expert_parameter
    return shared + last_stage_layers * expert_state_bytes_per_layer + further
