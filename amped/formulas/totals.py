"""Totals: the time of a step and of the training, and how well the machine was used."""

from amped.quantity import quantity


@quantity("s", choice="performance_model", value="amped")
def hidden_tensor_communication_time__amped(exposed_tensor_communication_time):
    """Tensor communication that runs beside computation: none in the closed form. Source: AMPeD, training time."""
    return 0 * exposed_tensor_communication_time


@quantity("s", choice="performance_model", value="amped")
def hidden_pipeline_communication_time__amped(exposed_pipeline_communication_time):
    """Pipeline communication that runs beside computation: none in the closed form. Source: AMPeD, training time."""
    return 0 * exposed_pipeline_communication_time


@quantity("s", choice="performance_model", value="amped")
def hidden_data_communication_time__amped(exposed_data_communication_time):
    """Data-parallel communication that runs beside computation: none in the closed form.

    Source: AMPeD, training time.
    """
    return 0 * exposed_data_communication_time


@quantity("s", choice="performance_model", value="amped")
def hidden_context_communication_time__amped(exposed_context_communication_time):
    """Context communication that runs beside computation: none in the closed form. Source: AMPeD, training time."""
    return 0 * exposed_context_communication_time


@quantity("s", choice="performance_model", value="amped")
def hidden_expert_communication_time__amped(exposed_expert_communication_time):
    """Expert communication that runs beside computation: none in the closed form. Source: AMPeD, training time."""
    return 0 * exposed_expert_communication_time


@quantity("s")
def step_time(
    compute_forward_time, compute_backward_time, recomputation_time, weight_update_time, optimizer_time,
    exposed_tensor_communication_time, exposed_pipeline_communication_time, exposed_data_communication_time,
    exposed_context_communication_time, exposed_expert_communication_time, exposed_offload_communication_time,
    pipeline_bubble_time,
):  # fmt: skip
    """Time of one optimizer step: the plain sum of its parts. Source: AMPeD, training time."""
    compute = compute_forward_time + compute_backward_time + recomputation_time + weight_update_time + optimizer_time
    communication = exposed_tensor_communication_time + exposed_pipeline_communication_time
    communication = communication + exposed_data_communication_time + exposed_context_communication_time
    communication = communication + exposed_offload_communication_time
    return compute + communication + exposed_expert_communication_time + pipeline_bubble_time


@quantity("s")
def training_time(number_of_steps, step_time, goodput_fraction):
    """Time of the whole training, with what checkpoints and failures take. Source: AMPeD, training time."""
    return number_of_steps * step_time / goodput_fraction


@quantity("1/s")
def tokens_per_second_per_accelerator(batch_size, context, step_time, number_of_accelerators):
    """Tokens that one accelerator trains on in a second. Source: definition."""
    return batch_size * context / step_time / number_of_accelerators


@quantity("1", choice="attention_flop_convention", value="full")
def counted_score_fraction__full(windowed_layer_fraction, attention_reach, context):
    """Share of the scores whose FLOPs are counted: all, in windowed layers those of a window for each token.

    Source: arXiv 2104.04473, eq. 3.
    """
    return 1 - windowed_layer_fraction * (1 - attention_reach / context)


@quantity("1", choice="attention_flop_convention", value="causal")
def counted_score_fraction__causal(causal_score_fraction):
    """Share of the scores whose FLOPs are counted: those on and below the diagonal.

    Source: arXiv 2307.08691, section 4.1.
    """
    return causal_score_fraction


@quantity("count")
def counted_layer_multiply_accumulates(
    layer_multiply_accumulates, attention_multiply_accumulates, counted_score_fraction,
    surplus_expert_multiply_accumulates,
):  # fmt: skip
    """Multiply-accumulates of the layers forward, as the FLOP convention counts them, experts as if all had as many tokens.

    Source: arXiv 2104.04473, appendix.
    """
    uncounted = (1 - counted_score_fraction) * attention_multiply_accumulates
    return layer_multiply_accumulates - uncounted - surplus_expert_multiply_accumulates


@quantity("flop")
def model_flops_per_accelerator(
    flops_per_multiply_accumulate, counted_layer_multiply_accumulates, head_multiply_accumulates
):
    """FLOPs a step needs on one accelerator, nothing counted twice: forward, and twice as much backward.

    Source: arXiv 2104.04473, appendix (72·B·s·L·h²…).
    """
    return 3 * flops_per_multiply_accumulate * (counted_layer_multiply_accumulates + head_multiply_accumulates)


@quantity("count")
def recomputed_multiply_accumulates(
    counted_layer_multiply_accumulates, attention_multiply_accumulates, counted_score_fraction,
    recomputed_layer_fraction, recomputed_core_fraction, recomputed_product_fraction,
):  # fmt: skip
    """Multiply-accumulates done again in a step: the layers' forward pass, scores and values, or of the others a share.

    Source: arXiv 2104.04473, eq. 3 (96·B·s·L·h²…); arXiv 2205.05198, section 6.3.
    """
    core = counted_score_fraction * attention_multiply_accumulates
    products = recomputed_product_fraction * (counted_layer_multiply_accumulates - core)
    return recomputed_layer_fraction * counted_layer_multiply_accumulates + recomputed_core_fraction * core + products


@quantity("flop")
def hardware_flops_per_accelerator(
    model_flops_per_accelerator, flops_per_multiply_accumulate, recomputed_multiply_accumulates
):
    """FLOPs of a step on one accelerator, with what is computed again. Source: arXiv 2104.04473, eq. 3."""
    return model_flops_per_accelerator + flops_per_multiply_accumulate * recomputed_multiply_accumulates


@quantity("flop/s")
def model_flop_rate_per_accelerator(model_flops_per_accelerator, step_time):
    """Useful FLOPs of one accelerator in a second. Source: arXiv 2204.02311, appendix B (MFU)."""
    return model_flops_per_accelerator / step_time


@quantity("flop/s")
def hardware_flop_rate_per_accelerator(hardware_flops_per_accelerator, step_time):
    """FLOPs of one accelerator in a second, with what is computed again. Source: arXiv 2104.04473, eq. 3."""
    return hardware_flops_per_accelerator / step_time


@quantity("1")
def model_flops_utilization(model_flop_rate_per_accelerator, matrix_peak_flop_rate):
    """Useful FLOPs as a share of the peak (MFU). Source: arXiv 2204.02311, appendix B."""
    return model_flop_rate_per_accelerator / matrix_peak_flop_rate


@quantity("1")
def hardware_flops_utilization(hardware_flop_rate_per_accelerator, matrix_peak_flop_rate):
    """FLOPs with recomputation as a share of the peak (HFU). Source: arXiv 2205.05198, section 6.3."""
    return hardware_flop_rate_per_accelerator / matrix_peak_flop_rate


@quantity("1")
def attention_flops_fraction(
    attention_multiply_accumulates, flops_per_multiply_accumulate, model_flops_per_accelerator
):
    """FLOPs of all scores and values forward as a share of the FLOPs counted for a step. Source: definition."""
    return attention_multiply_accumulates * flops_per_multiply_accumulate / model_flops_per_accelerator


@quantity("1")
def model_flops_utilization_counting_all_scores(
    model_flops_utilization, attention_flops_fraction, counted_score_fraction
):
    """Useful FLOPs as a share of the peak (MFU), whole attention counted. Source: arXiv 2104.04473, eq. 3."""
    return model_flops_utilization * (1 + 3 * attention_flops_fraction * (1 - counted_score_fraction))


@quantity("1")
def model_flops_utilization_counting_causal_scores(
    model_flops_utilization, attention_flops_fraction, counted_score_fraction, causal_score_fraction
):
    """Useful FLOPs as a share of the peak (MFU), the causal half of attention counted.

    Source: arXiv 2307.08691, section 4.1.
    """
    return model_flops_utilization * (
        1 + 3 * attention_flops_fraction * (causal_score_fraction - counted_score_fraction)
    )


@quantity("1")
def hardware_flops_utilization_counting_all_scores(
    hardware_flops_utilization, model_flops_utilization, attention_flops_fraction, counted_score_fraction,
    recomputed_layer_fraction, recomputed_core_fraction,
):  # fmt: skip
    """FLOPs with recomputation as a share of the peak (HFU), whole attention counted. Source: arXiv 2104.04473, eq. 3."""
    passes = 3 + recomputed_layer_fraction + recomputed_core_fraction
    more = passes * attention_flops_fraction * (1 - counted_score_fraction)
    return hardware_flops_utilization + model_flops_utilization * more


@quantity("1")
def hardware_flops_utilization_counting_causal_scores(
    hardware_flops_utilization, model_flops_utilization, attention_flops_fraction, counted_score_fraction,
    recomputed_layer_fraction, recomputed_core_fraction, causal_score_fraction,
):  # fmt: skip
    """FLOPs with recomputation as a share of the peak (HFU), the causal half of attention counted.

    Source: arXiv 2307.08691, section 4.1.
    """
    passes = 3 + recomputed_layer_fraction + recomputed_core_fraction
    more = passes * attention_flops_fraction * (causal_score_fraction - counted_score_fraction)
    return hardware_flops_utilization + model_flops_utilization * more
