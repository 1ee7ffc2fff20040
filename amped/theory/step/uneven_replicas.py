"""Replicas whose sequences have unequal attention work: all wait for the one that has most."""

import numpy as np

from amped.theory.language.quantity import quantity
from amped.theory.nouns.records import total


def expected_maximum(numbers):
    """The expected maximum of independent numbers of a normal distribution, in standard deviations above their mean.

        4.91·(p^0.14 − (1 − p)^0.14),  p = (numbers − 0.375) / (numbers + 0.25)

    `numbers` is how many there are. Within 6 % for 2 to 16,384 numbers.

    Source: Blom, Statistical Estimates and Transformed Beta-Variables, 1958 (p); Joiner and Rosenblatt, JASA 66(334),
    1971 (the quantile by Tukey's lambda).
    """
    p = (numbers - 0.375) / (numbers + 0.25)
    return 4.91 * (p**0.14 - (1 - p) ** 0.14)


@quantity("s")
def uneven_attention_time(layer_durations, bottleneck_stage_layer_passes, attention_work_deviation, minibatch_size):
    """The standard deviation, between replicas, of the time of attention in a step on the bottleneck stage.

        time = time of the attention core in all passes·deviation / √(sequences of a replica)

    Source: arXiv 2412.01523, section 1; definition. Differs: recomputed attention is left out.
    """
    core = total(duration.time * duration.count for duration in layer_durations if duration.part.core)
    return core * bottleneck_stage_layer_passes * attention_work_deviation / np.sqrt(minibatch_size)


@quantity("s")
def uneven_computation_time(
    compute_forward_time,
    compute_backward_time,
    weight_update_time,
    recomputation_time,
    sequence_tokens_deviation,
    number_of_microbatches_per_minibatch,
):
    """The standard deviation, between replicas, of the time of all kernels, if micro-batches differ in tokens.

        time = computation·deviation / √(micro-batches of a replica)

    They differ if each is padded to its longest document. Source: definition.
    """
    compute = compute_forward_time + compute_backward_time + weight_update_time + recomputation_time
    return compute * sequence_tokens_deviation / np.sqrt(number_of_microbatches_per_minibatch)


@quantity("s", when_given=("attention_work_deviation",))
def replica_wait_time__uneven(uneven_attention_time, uneven_computation_time, data_parallel_degree):
    """The time in a step that an average replica waits for the one whose documents have most work.

        time = (deviation of attention + deviation of computation)·expected maximum over replicas

    Source: arXiv 2412.01523, section 1; definition. Differs: stages of a pipeline that wait for a micro-batch with more
    work than others are left out.
    """
    return (uneven_attention_time + uneven_computation_time) * expected_maximum(data_parallel_degree)
