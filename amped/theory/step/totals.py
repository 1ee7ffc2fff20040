"""Totals: the time of a step and of the training, and how well the machine is used."""

from amped.theory.language.quantity import each_of, quantity
from amped.theory.nouns.parallelisms import PARALLELISMS
from amped.theory.nouns.records import total


@each_of(KIND=(*(kind for kind in PARALLELISMS if kind != "data"), "offload", "data"))
@quantity("s")
def step_time(
    compute_forward_time,
    compute_backward_time,
    recomputation_time,
    weight_update_time,
    optimizer_time,
    exposed_KIND_communication_time,
    pipeline_bubble_time,
):
    """The time of one optimizer step: the sum of its parts.

    Data-parallel communication and the optimizer are added last. ZeRO changes them, and a search computes the sum of
    the others once.

    Source: AMPeD, training time.
    """
    compute = compute_forward_time + compute_backward_time + recomputation_time + weight_update_time
    return total([compute + pipeline_bubble_time, *exposed_KIND_communication_time]) + optimizer_time


@quantity("s")
def training_time(number_of_steps, step_time, goodput_fraction):
    """The time of the whole training, with checkpoints and failures. Source: AMPeD, training time."""
    return number_of_steps / goodput_fraction * step_time


@quantity("1/s")
def tokens_per_second_per_accelerator(batch_size, context, sequence_fill, step_time, number_of_accelerators):
    """The number of tokens on which one accelerator trains in a second; padding does not count. Source: definition."""
    return batch_size * context / number_of_accelerators / step_time * sequence_fill


@quantity("flop/s")
def model_flop_rate_per_accelerator(model_flops_per_accelerator, step_time):
    """The FLOPs that the model needs on one accelerator, divided by the time of a step.

    Source: arXiv 2204.02311, appendix B (MFU).
    """
    return model_flops_per_accelerator / step_time


@quantity("flop/s")
def hardware_flop_rate_per_accelerator(hardware_flops_per_accelerator, step_time):
    """The FLOPs that one accelerator computes, with recomputation, divided by the time of a step.

    Source: arXiv 2104.04473, eq. 3.
    """
    return hardware_flops_per_accelerator / step_time


@quantity("1")
def model_flops_utilization(model_flop_rate_per_accelerator, matrix_peak_flop_rate):
    """The rate of the FLOPs that the model needs, as a share of the accelerator's peak rate (MFU).

    Source: arXiv 2204.02311, appendix B.
    """
    return model_flop_rate_per_accelerator / matrix_peak_flop_rate


@quantity("1")
def hardware_flops_utilization(hardware_flop_rate_per_accelerator, matrix_peak_flop_rate):
    """The rate of the FLOPs with recomputation, as a share of the accelerator's peak rate (HFU).

    Source: arXiv 2205.05198, section 6.3.
    """
    return hardware_flop_rate_per_accelerator / matrix_peak_flop_rate


@quantity("1")
def model_flops_utilization_counting_all_scores(
    model_flops_utilization, attention_flops_fraction, counted_score_fraction, gradient_layer_fraction
):
    """The model FLOPs utilization (MFU) if all scores of attention are counted. Source: arXiv 2104.04473, eq. 3."""
    passes = 1 + 2 * gradient_layer_fraction
    return model_flops_utilization * (1 + passes * attention_flops_fraction * (1 - counted_score_fraction))


@quantity("1")
def model_flops_utilization_counting_causal_scores(
    model_flops_utilization,
    attention_flops_fraction,
    counted_score_fraction,
    causal_score_fraction,
    gradient_layer_fraction,
):
    """The model FLOPs utilization (MFU) if only the causal half of the scores is counted.

    Source: arXiv 2307.08691, section 4.1.
    """
    passes = 1 + 2 * gradient_layer_fraction
    return model_flops_utilization * (
        1 + passes * attention_flops_fraction * (causal_score_fraction - counted_score_fraction)
    )


@quantity("1")
def hardware_flops_utilization_counting_all_scores(
    hardware_flops_utilization,
    model_flops_utilization,
    attention_flops_fraction,
    counted_score_fraction,
    recomputed_layer_fraction,
    recomputed_attention_core_fraction,
    gradient_layer_fraction,
):
    """The hardware FLOPs utilization (HFU) if all scores of attention are counted. Source: arXiv 2104.04473, eq. 3."""
    passes = 1 + 2 * gradient_layer_fraction + recomputed_layer_fraction + recomputed_attention_core_fraction
    difference = passes * attention_flops_fraction * (1 - counted_score_fraction)
    return hardware_flops_utilization + model_flops_utilization * difference


@quantity("1")
def hardware_flops_utilization_counting_causal_scores(
    hardware_flops_utilization,
    model_flops_utilization,
    attention_flops_fraction,
    counted_score_fraction,
    recomputed_layer_fraction,
    recomputed_attention_core_fraction,
    gradient_layer_fraction,
    causal_score_fraction,
):
    """The hardware FLOPs utilization (HFU) if only the causal half of the scores is counted.

    Source: arXiv 2307.08691, section 4.1.
    """
    passes = 1 + 2 * gradient_layer_fraction + recomputed_layer_fraction + recomputed_attention_core_fraction
    difference = passes * attention_flops_fraction * (causal_score_fraction - counted_score_fraction)
    return hardware_flops_utilization + model_flops_utilization * difference
