"""Times of kernels that were measured: an operator takes the time of the nearest measured shape, if one is near.

The user names a table of measured kernels (`measured_kernel_table`). A measured time is that of a short run. It counts
as a factor on the time of the roofline model (`law`), so that the operator has the clock of the training run:

    time = law(operator) * measured(shape) / law(shape at full clock).
"""

import numpy as np

from amped.theory.language.quantity import family, records
from amped.theory.roofline.kernels import kernel_time

# Shapes that are compared with all measured shapes at the same time; more would take too much memory.
SHAPES_AT_ONCE = 4096
# No distance, and the factor of a time by the law.
BY_LAW = (np.inf, 1.0)


def sides_of(o, share):
    """The numbers by which shapes are compared: m, n, k and the number of products, except for a fused attention.

    For a fused attention they are the rows of queries, the number of keys, the widths of a head in keys and in values
    together, and the share of the scores that is computed. By this share a causal attention differs from an attention
    to all keys.

    Source: definition.
    """
    return {"fused_attention": (o.m, o.n, o.both_widths, share)}.get(o.kind, (o.m, o.n, o.k, o.batch))


def nearest(sides, measured_sides):
    """For each operator, the place of the nearest measured shape, and its distance.

        distance = max over sides |ln(side / measured side)|.

    Args:
        sides: those of operators, arrays that broadcast.
        measured_sides: those of the measured shapes, arrays of one length.

    Source: definition (a distance of 0.25 means that no side differs by more than 28 %).
    """
    operators = np.stack(np.broadcast_arrays(*sides), axis=-1)
    shapes, place = np.unique(operators.reshape(-1, len(sides)), axis=0, return_inverse=True)
    logarithms = np.log(np.stack(np.broadcast_arrays(*measured_sides), axis=-1))
    parts = [_distances(part, logarithms) for part in np.array_split(shapes, len(shapes) // SHAPES_AT_ONCE + 1)]
    place = place.reshape(operators.shape[:-1])
    nearest_shapes, distances = (np.concatenate([f(part, axis=-1) for part in parts]) for f in (np.argmin, np.min))
    return nearest_shapes[place], distances[place]


def _distances(shapes, logarithms):
    """The distance of each of some shapes from each measured shape; infinite for a shape that is empty."""
    sides = np.log(np.maximum(shapes, 0))[:, None, :] - logarithms[None]
    return np.nan_to_num(np.max(np.abs(sides), axis=-1), nan=np.inf, posinf=np.inf)


def looked_up(o, full, timed, share):
    """The distance of an operator from the nearest measured shape, and a factor from there.

    The factor is the measured time of that shape, divided by its time by the roofline model. A product whose inner
    dimension arrives in parts, and an attention with dropout, have no measured shape near them: their distance is
    infinite.

    Source: definition.
    """
    place, distance = nearest(sides_of(o, share), sides_of(timed.operator, timed.share))
    there = timed.at(place)
    other = (o.panels != 1) | (o.dropped != 0)
    law = kernel_time(there.operator, full) + there.converting + there.prepared / full.streams.bandwidth
    return np.where(other, np.inf, distance), there.time / law


def nearer(one, other):
    """The nearer of two shapes, each with its distance and its factor. Source: definition."""
    return tuple(np.where(one[0] <= other[0], a, b) for a, b in zip(one, other, strict=True))


def duration(o, rates, full, table, most, share):
    """The time of one call of an operator by the roofline model, corrected if a measured shape is near enough.

    The correction is the factor between the measured time and the roofline model for the nearest measured shape.

    Source: definition.
    """
    distance, factor = BY_LAW
    for timed in (t for t in table if t.kind == o.kind and o.phase in t.phases):
        distance, factor = nearer((distance, factor), looked_up(o, full, timed, share))
    near = distance <= most
    time = kernel_time(o, rates) * np.where(near, factor, 1.0)
    return o.lasting(time, np.where(near, distance, np.inf))


def serving(table, narrow, wide):
    """The measured kernels that serve a precision.

    Args:
        table: all measured kernels of the accelerator.
        narrow: the format of the factors of products with weights.
        wide: the format of the factors of the output head and of attention, which stay in 16 bits.

    Source: NVIDIA Transformer Engine, fp8 recipes (attention and output head in 16 bits).
    """
    products = [t for t in table if t.precision == narrow and t.kind != "fused_attention"]
    attention = [t for t in table if t.precision == wide and t.kind == "fused_attention"]
    heads = [t.of("output_head_contraction") for t in table if t.precision == wide and t.kind == "contraction"]
    return (*products, *attention, *heads)


@family(
    named=(
        "timed_kernels__fp32",
        "timed_kernels__tf32",
        "timed_kernels__fp16",
        "timed_kernels__bf16",
        "timed_kernels__fp4",
    ),
    PRECISION=("fp32", "tf32", "fp16", "bf16", "fp4"),
    WIDE=("fp32", "fp32", "fp16", "bf16", "bf16"),
)
@records(choice="matrix_precision", value="PRECISION")
def timed_kernels__PRECISION(measured_kernel_table, *, precision, wide):
    """The measured kernels that serve products in PRECISION. Source: definition."""
    return serving(measured_kernel_table, precision, wide)


@family(
    named=(
        "timed_fp8_kernels__tensors",
        "timed_fp8_kernels__blocks",
    ),
    SCALING=("tensors", "blocks"),
    NARROW=("fp8", "fp8_block"),
)
@records(choice="fp8_scaling", value="SCALING")
def timed_fp8_kernels__SCALING(measured_kernel_table, *, narrow):
    """The measured kernels that serve products in fp8 with one scale for each of the SCALING. Source: definition."""
    return serving(measured_kernel_table, narrow, "bf16")


@family(
    named=(
        "layer_durations__measured",
        "embedding_durations__measured",
        "output_head_durations__measured",
    ),
    PART=("layer", "embedding", "output_head"),
)
@records(choice="performance_model", value="operators", when_given=("measured_kernel_table",))
def PART_durations__measured(
    PART_operators,
    kernel_rates,
    timed_kernels,
    slowest_clock_fraction,
    measured_kernel_distance,
    computed_score_fraction,
):
    """The time of each operator: that of the nearest measured shape if one is near, else by the roofline model.

    Source: the user's table of measured kernels; `kernel_time` for the law.
    """
    full = kernel_rates[0].at_full_clock(slowest_clock_fraction)
    return tuple(
        duration(o, kernel_rates[0], full, timed_kernels, measured_kernel_distance, computed_score_fraction)
        for o in PART_operators
    )
