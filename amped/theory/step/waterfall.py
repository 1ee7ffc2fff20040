"""Where the time of computation goes, from the peak rate down to what kernels reach.

    forward + input gradients + weight gradients
      = FLOPs of the model at the peak rate + other work at the peak rate + slow clock
        + what products lose + what attention loses + all other kernels + waits for the host

Each term is what is left of the time after the terms before it, so that the terms add up. The other parts of a step
follow as they are: recomputation, exposed communication, the bubble and the optimizer.
"""

from amped.theory.language.quantity import family, quantity, records
from amped.theory.nouns.conditions import BY_OPERATORS, CLOSED_FORM
from amped.theory.nouns.layer_records import KernelGroup
from amped.theory.nouns.records import CONTRACTIONS, time_of, total

# The groups of kernels. What multiplies no matrices has no work at the peak rate of matrix products.
PRODUCTS, ATTENTION, OTHERS = "products", "attention", "others"
# The kinds of kernels that mix tokens in one kernel, and all kinds that multiply matrices.
MIXING = ("fused_attention", "chunked_scan", "short_convolution")
MULTIPLYING = (*CONTRACTIONS, "fused_attention", "chunked_scan")
GROUPS = dict.fromkeys(CONTRACTIONS, PRODUCTS) | dict.fromkeys(MIXING, ATTENTION)


def group_of(duration):
    """The group of a kernel; all kernels of an attention core are those of attention. Source: definition."""
    return {True: ATTENTION, False: GROUPS.get(duration.kind, OTHERS)}[duration.part.core]


def kernel_groups(durations, works):
    """The seconds and the FLOPs of matrix products of all calls of some kernels, by group.

    Args:
        durations: the kernels with their times.
        works: the same kernels; the `time` of each is the number of its FLOPs.

    Source: definition.
    """
    multiplying = [work for work in works if work.kind in MULTIPLYING]
    return tuple(
        KernelGroup(
            name,
            time=time_of(d for d in durations if group_of(d) == name),
            flops=time_of(work for work in multiplying if group_of(work) == name),
        )
        for name in (PRODUCTS, ATTENTION, OTHERS)
    )


@records(**BY_OPERATORS)
def layer_kernel_groups__operators(layer_kinds, layer_operators, kind_durations, bottleneck_layer_shares):
    """The kernels of an average layer of the bottleneck stage by group, for a micro-batch. Source: definition."""
    shares, works = bottleneck_layer_shares[0], [o.lasting(o.flops) for o in layer_operators]
    layers = [
        kernel_groups(layer.durations, kind.durations(works))
        for kind, layer in zip(layer_kinds, kind_durations, strict=True)
    ]
    return tuple(
        KernelGroup(
            same[0].name,
            time=shares.mean([group.time for group in same]),
            flops=shares.mean([group.flops for group in same]),
        )
        for same in zip(*layers, strict=True)
    )


@family(
    named=(
        "tower_kernel_groups__operators",
        "embedding_kernel_groups__operators",
        "output_head_kernel_groups__operators",
    ),
    PART=("tower", "embedding", "output_head"),
)
@records(**BY_OPERATORS)
def PART_kernel_groups__operators(PART_operators, PART_durations):
    """The kernels of the PART by group, for a micro-batch. Source: definition."""
    return kernel_groups(PART_durations, [o.lasting(o.flops) for o in PART_operators])


@records(**BY_OPERATORS)
def step_kernel_groups__operators(
    layer_kernel_groups,
    tower_kernel_groups,
    embedding_kernel_groups,
    output_head_kernel_groups,
    bottleneck_stage_layer_passes,
    bottleneck_stage_embedding_passes,
    bottleneck_stage_output_head_passes,
):
    """The kernels of the bottleneck stage in a step by group, without those of recomputation and of the optimizer.

    A tower runs as often as the embedding behind it. Source: definition.
    """
    ends = (bottleneck_stage_embedding_passes, bottleneck_stage_embedding_passes, bottleneck_stage_output_head_passes)
    passes = (bottleneck_stage_layer_passes, *ends)
    parts = zip(
        layer_kernel_groups, tower_kernel_groups, embedding_kernel_groups, output_head_kernel_groups, strict=True
    )
    return tuple(
        KernelGroup(
            same[0].name,
            time=total(number * group.time for number, group in zip(passes, same, strict=True)),
            flops=total(number * group.flops for number, group in zip(passes, same, strict=True)),
        )
        for same in parts
    )


@quantity("s")
def peak_time(model_flops_per_accelerator, matrix_peak_flop_rate):
    """The time of the FLOPs that the model needs on one accelerator, at the peak rate: MFU times the time of a step.

    Source: arXiv 2204.02311, appendix B (MFU).
    """
    return model_flops_per_accelerator / matrix_peak_flop_rate


@quantity("s", **BY_OPERATORS)
def uncounted_work_time__operators(step_kernel_groups, matrix_peak_flop_rate, peak_time):
    """The time at the peak rate of matrix products that the model does not count.

    They are what the bottleneck stage has more than an average one, padding, scores that a mask leaves out, and the
    scores that a fused attention computes again in its backward pass. It is negative if the model counts what nobody
    computes: all scores of an attention whose kernel skips masked ones, or an average stage that has more work.

    Source: definition.
    """
    return total(group.flops for group in step_kernel_groups) / matrix_peak_flop_rate - peak_time


@quantity("s", **BY_OPERATORS)
def clock_loss_time__operators(peak_time, uncounted_work_time, slowest_clock_fraction):
    """The time that matrix products take longer because the clock of a training is below that of the peak rate.

    Source: definition.
    """
    return (peak_time + uncounted_work_time) * (1 / slowest_clock_fraction - 1)


@family(
    named=("product_loss_time__operators", "attention_loss_time__operators"),
    WHAT=("product", "attention"),
    GROUP=("products", "attention"),
)
@quantity("s", **BY_OPERATORS)
def WHAT_loss_time__operators(step_kernel_groups, matrix_peak_flop_rate, slowest_clock_fraction, *, group):
    """The time that the GROUP take longer than their FLOPs at the peak rate and at the clock of a training.

    Products in a wider format than the peak of the others count here, too.

    Source: definition.
    """
    (kernels,) = (g for g in step_kernel_groups if g.name == group)
    return kernels.time - kernels.flops / (matrix_peak_flop_rate * slowest_clock_fraction)


@quantity("s", **CLOSED_FORM)
def product_loss_time__amped(compute_forward_time, compute_backward_time, weight_update_time, peak_time):
    """The time that computation takes longer than the FLOPs of the model at the peak rate.

    The closed form has one efficiency for all products, and counts nonlinear operations with them.

    Source: definition.
    """
    return compute_forward_time + compute_backward_time + weight_update_time - peak_time


@quantity("s", **BY_OPERATORS)
def other_kernel_time__operators(step_kernel_groups):
    """The time of the kernels that multiply no matrices: norms, activation functions, embedding, loss, permutations.

    Most of them wait for memory. Source: definition.
    """
    return total(group.time for group in step_kernel_groups if group.name == OTHERS)


@quantity("s", **BY_OPERATORS)
def kernel_wait_time__operators(compute_forward_time, compute_backward_time, weight_update_time, step_kernel_groups):
    """The time of computation in which no kernel runs, because the host launches kernels too late.

    It has the waits of layers (`host_wait_time`), and those of the embedding and of the output head.

    Source: definition.
    """
    compute = compute_forward_time + compute_backward_time + weight_update_time
    return compute - total(group.time for group in step_kernel_groups)
