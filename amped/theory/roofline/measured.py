"""Times of kernels that were measured: an operator takes the time of the nearest measured shape, if one is near.

The user names a table of measured kernels (`measured_kernel_table`). A measured time is that of a short run. It counts
as a factor on the time of the roofline model (`law`), so that the operator has the clock of the training run:

    time = law(operator) * measured(shape) / law(shape at full clock).
"""

import numpy as np

from amped.theory.language.quantity import family, records
from amped.theory.nouns.records import WIDE
from amped.theory.roofline.kernels import kernel_time

# The number of shapes that are compared with all measured shapes at a time; more would take too much memory.
SHAPES_AT_ONCE = 4096
# The distance and the factor of an operator that has only the time by the roofline model.
BY_LAW = (np.inf, 1.0)


def sides_of(operator, share):
    """The numbers by which shapes are compared: m, n, k and the number of products, except for a fused attention.

    For a fused attention they are the rows of queries, the number of keys, the sum of the widths of a head in keys and
    in values, and the share of the scores that is computed. This share tells a causal attention from an attention to
    all keys.

    Args:
        operator: an operator, or the record of several measured shapes.
        share: the share of the scores that an attention computes.

    Source: definition.
    """
    return {"fused_attention": (operator.m, operator.n, operator.both_widths, share)}.get(
        operator.kind, (operator.m, operator.n, operator.k, operator.batch)
    )


def nearest(sides, measured_sides):
    """The index of the nearest measured shape for each operator, and the distance of this shape.

        distance = max over sides |ln(side / measured side)|.

    Args:
        sides: the sides of the operators, arrays that broadcast.
        measured_sides: the sides of the measured shapes, arrays of one length.

    Source: definition (a distance of 0.25 means that no side differs by more than 28 %).
    """
    operators = np.stack(np.broadcast_arrays(*sides), axis=-1)
    shapes, shape_index = np.unique(operators.reshape(-1, len(sides)), axis=0, return_inverse=True)
    logarithms = np.log(np.stack(np.broadcast_arrays(*measured_sides), axis=-1))
    parts = [_distances(part, logarithms) for part in np.array_split(shapes, len(shapes) // SHAPES_AT_ONCE + 1)]
    shape_index = shape_index.reshape(operators.shape[:-1])
    nearest_shapes, distances = (
        np.concatenate([reduction(part, axis=-1) for part in parts]) for reduction in (np.argmin, np.min)
    )
    return nearest_shapes[shape_index], distances[shape_index]


def _distances(shapes, logarithms):
    """The distance of each operator's shape from each measured shape; infinite for a shape with a side of zero.

    Args:
        shapes: a row with the sides of each operator's shape.
        logarithms: a row with the logarithms of the sides of each measured shape.
    """
    has_size = np.all(shapes > 0, axis=-1)
    sides = np.log(np.where(has_size[:, None], shapes, 1.0))[:, None, :] - logarithms[None]
    return np.where(has_size[:, None], np.max(np.abs(sides), axis=-1), np.inf)


def distance_and_factor(operator, full_clock_rates, timed, share):
    """The distance of an operator from the nearest measured shape, and the factor of that shape.

    The factor is the measured time of that shape, divided by its time by the roofline model. A product whose inner
    dimension arrives in panels, and an attention with dropout, have no measured shape: their distance is infinite.

    Args:
        operator: the operator.
        full_clock_rates: the coefficients of the accelerator at the full clock.
        timed: the measured kernels of one kind.
        share: the share of the scores that an attention computes.

    Source: definition.
    """
    index, distance = nearest(sides_of(operator, share), sides_of(timed.operator, timed.share))
    nearest_kernels = timed.at(index)
    is_unmeasured = (operator.panels != 1) | (operator.dropped != 0)
    model_time = (
        kernel_time(nearest_kernels.operator, full_clock_rates)
        + nearest_kernels.converting
        + nearest_kernels.prepared / full_clock_rates.streams.bandwidth
    )
    return np.where(is_unmeasured, np.inf, distance), nearest_kernels.time / model_time


def nearer(one, other):
    """The distance and the factor of the nearer of two measured shapes.

    `one` and `other` are pairs of a distance and a factor.

    Source: definition.
    """
    return tuple(
        np.where(one[0] <= other[0], one_value, other_value) for one_value, other_value in zip(one, other, strict=True)
    )


def measured_duration(operator, rates, full_clock_rates, measured_kernels, largest_distance, share):
    """The time of one call of an operator by the roofline model, corrected if a measured shape is near enough.

    The correction is the measured time of the nearest shape, divided by the time of that shape by the roofline model.

    Args:
        operator: the operator.
        rates: the coefficients of the accelerator in the training run.
        full_clock_rates: the same coefficients at the full clock.
        measured_kernels: the measured kernels of all kinds.
        largest_distance: the largest distance at which a measured shape corrects the time.
        share: the share of the scores that an attention computes.

    Source: definition.
    """
    distance, factor = BY_LAW
    for timed in (t for t in measured_kernels if t.kind == operator.kind and operator.phase in t.phases):
        distance, factor = nearer((distance, factor), distance_and_factor(operator, full_clock_rates, timed, share))
    is_near = distance <= largest_distance
    time = kernel_time(operator, rates) * np.where(is_near, factor, 1.0)
    return operator.lasting(time, np.where(is_near, distance, np.inf))


def kernels_that_serve(table, narrow, wide):
    """The measured kernels whose times hold for operators of a precision.

    Args:
        table: all measured kernels of the accelerator.
        narrow: the format of the factors of products with weights.
        wide: the format of the factors of the output head and of attention, which stay in 16 bits.

    Source: NVIDIA Transformer Engine, fp8 recipes (attention and output head in 16 bits).
    """
    products = [t for t in table if t.precision == narrow and t.kind != "fused_attention"]
    attention = [t for t in table if t.precision == wide and t.kind == "fused_attention"]
    others = [t for t in table if t.precision == wide]
    heads = [t.of("output_head_contraction") for t in others if t.kind == "contraction"]
    layers = [t.of(WIDE[t.kind]) for t in others if t.kind in WIDE]
    return (*products, *attention, *heads, *layers)


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
    """The measured kernels whose times hold for products in PRECISION. Source: definition."""
    return kernels_that_serve(measured_kernel_table, precision, wide)


@family(
    named=(
        "timed_fp8_kernels__tensors",
        "timed_fp8_kernels__current",
        "timed_fp8_kernels__blocks",
    ),
    SCALING=("tensors", "current", "blocks"),
    NARROW=("fp8", "fp8", "fp8_block"),
)
@records(choice="fp8_scaling", value="SCALING")
def timed_fp8_kernels__SCALING(measured_kernel_table, *, narrow):
    """The measured kernels whose times hold for fp8 with one scale for each of the SCALING. Source: definition."""
    return kernels_that_serve(measured_kernel_table, narrow, "bf16")


@family(
    named=(
        "layer_durations__measured",
        "embedding_durations__measured",
        "output_head_durations__measured",
        "tower_durations__measured",
    ),
    PART=("layer", "embedding", "output_head", "tower"),
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
    """The time of each operator: the time of the nearest measured shape if this is near, else by the roofline model.

    Source: the user's table of measured kernels; `kernel_time` for the roofline model.
    """
    full_clock_rates = kernel_rates[0].at_full_clock(slowest_clock_fraction)
    return tuple(
        measured_duration(
            operator,
            kernel_rates[0],
            full_clock_rates,
            timed_kernels,
            measured_kernel_distance,
            computed_score_fraction,
        )
        for operator in PART_operators
    )
