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


@quantity("s", when_given=("attention_work_deviation",))
def replica_wait_time__uneven(
    layer_durations,
    bottleneck_stage_layer_passes,
    attention_work_deviation,
    sequence_tokens_deviation,
    compute_forward_time,
    compute_backward_time,
    weight_update_time,
    recomputation_time,
    data_parallel_degree,
    minibatch_size,
    number_of_microbatches_per_minibatch,
):
    """The time in a step that an average replica waits for the one whose documents have most attention work.

        time = (attention·deviation / √(sequences of a replica) + computation·token deviation / √(micro-batches))
             · expected maximum over replicas

    `attention` is the time of the attention core in all passes of a step on the bottleneck stage, and `computation`
    that of all kernels. Micro-batches have different numbers of tokens if each is padded to its longest document.

    Source: arXiv 2412.01523, section 1; definition. Differs: stages of a pipeline that wait for a micro-batch with more
    work than others are left out, and so is recomputed attention.
    """
    core = total(duration.time * duration.count for duration in layer_durations if duration.part.core)
    deviation = attention_work_deviation / np.sqrt(minibatch_size)
    attention = core * bottleneck_stage_layer_passes * deviation
    compute = compute_forward_time + compute_backward_time + weight_update_time + recomputation_time
    uneven = compute * sequence_tokens_deviation / np.sqrt(number_of_microbatches_per_minibatch)
    return (attention + uneven) * expected_maximum(data_parallel_degree)
