"""Rules that pipeline schedules must keep: what each can run, told with the number to change where it does not."""

import numpy as np

from amped.quantity import quantity

GPIPE = {"choice": "pipeline_schedule", "value": "gpipe"}
H1 = {"choice": "pipeline_schedule", "value": "zero_bubble_h1"}
V = {"choice": "pipeline_schedule", "value": "zero_bubble_v"}


@quantity("boolean", constrains="virtual_pipeline_stages", **GPIPE)
def only_1f1b_interleaves__gpipe(virtual_pipeline_stages):
    """Only the schedule 1f1b has virtual stages; gpipe has one chunk of layers a stage. Source: arXiv 1811.06965."""
    return virtual_pipeline_stages == 1


@quantity("boolean", constrains="virtual_pipeline_stages", **H1)
def only_1f1b_interleaves__zero_bubble_h1(virtual_pipeline_stages):
    """Only the schedule 1f1b has virtual stages; zero_bubble_h1 has one chunk of layers a stage. Source: arXiv 2401.10241."""
    return virtual_pipeline_stages == 1


@quantity("boolean", constrains="virtual_pipeline_stages", **V)
def only_1f1b_interleaves__zero_bubble_v(virtual_pipeline_stages):
    """Only the schedule 1f1b has virtual stages; zero_bubble_v has its two chunks a stage by itself. Source: arXiv 2405.15362."""
    return virtual_pipeline_stages == 1


@quantity("boolean", constrains="pipeline_parallel_degree", **H1)
def zero_bubble_needs_stages__zero_bubble_h1(pipeline_parallel_degree):
    """There are several stages, or there is no bubble. Source: arXiv 2401.10241."""
    return pipeline_parallel_degree > 1


@quantity("boolean", constrains="pipeline_parallel_degree", **V)
def zero_bubble_needs_stages__zero_bubble_v(pipeline_parallel_degree):
    """There are several stages, or there is no bubble. Source: arXiv 2405.15362."""
    return pipeline_parallel_degree > 1


@quantity("boolean", constrains="microbatch_size", **H1)
def zero_bubble_needs_microbatches__zero_bubble_h1(
    microbatch_size, number_of_microbatches_per_minibatch, pipeline_parallel_degree
):
    """There are at least as many micro-batches as stages. Source: arXiv 2401.10241, section 2.2."""
    return microbatch_size * (number_of_microbatches_per_minibatch - pipeline_parallel_degree) >= 0


@quantity("boolean", constrains="microbatch_size", **V)
def zero_bubble_needs_microbatches__zero_bubble_v(
    microbatch_size, number_of_microbatches_per_minibatch, pipeline_parallel_degree
):
    """There are micro-batches to fill the V before the first comes back: 2·p − 1 or more.

    Source: torch.distributed.pipelining, ScheduleZBVZeroBubble.
    """
    return microbatch_size * (number_of_microbatches_per_minibatch - 2 * pipeline_parallel_degree + 1) >= 0


@quantity("boolean", constrains="pipeline_parallel_degree", **V)
def a_v_has_even_chunks__zero_bubble_v(layers, pipeline_parallel_degree, largest_stage_layers):
    """Each of the two chunks of each stage has as many layers. Source: arXiv 2405.15362, section 3."""
    even = largest_stage_layers == layers / pipeline_parallel_degree
    return (np.mod(layers, 2 * pipeline_parallel_degree) == 0) & even


@quantity("boolean", constrains="pipeline_parallel_degree", when_given=("pipeline_layout",))
def the_layout_lists_every_stage(number_of_listed_stages, pipeline_parallel_degree):
    """The layout has a number of layers for each pipeline stage. Source: Megatron-Core, pipeline layout."""
    return number_of_listed_stages == pipeline_parallel_degree


@quantity("boolean", constrains="layers", when_given=("pipeline_layout",))
def the_layout_lists_every_layer(number_of_listed_layers, layers):
    """The stages of the layout have all layers. Source: Megatron-Core, pipeline layout."""
    return number_of_listed_layers == layers


@quantity("boolean", constrains="virtual_pipeline_stages", when_given=("pipeline_layout",))
def a_layout_has_one_chunk_a_stage(virtual_pipeline_stages):
    """Stages of a layout have one chunk of layers each. Source: definition; lists of chunks are not modelled."""
    return virtual_pipeline_stages == 1


@quantity("boolean", constrains="number_of_first_stage_layers", when_given=("pipeline_layout",))
def the_first_stage_is_that_of_the_layout(number_of_first_stage_layers, first_listed_layers):
    """The first stage has the layers that the layout lists, where both are given. Source: definition."""
    return number_of_first_stage_layers == first_listed_layers


@quantity("boolean", constrains="number_of_last_stage_layers", when_given=("pipeline_layout",))
def the_last_stage_is_that_of_the_layout(number_of_last_stage_layers, last_listed_layers):
    """The last stage has the layers that the layout lists, where both are given. Source: definition."""
    return number_of_last_stage_layers == last_listed_layers


@quantity("boolean", constrains="pipeline_parallel_degree")
def layers_divide_by_stages_and_chunks(
    layers, pipeline_parallel_degree, virtual_pipeline_stages, first_stage_layers, middle_stage_layers,
    last_stage_layers, uneven_chunks,
):  # fmt: skip
    """Each stage has layers, together all of them, those between first and last equally many, and its chunks as many.

    Uneven chunks have one layer at least. Source: arXiv 2104.04473, section 2.2.
    """
    chunks = np.where(uneven_chunks > 0, 1, virtual_pipeline_stages)
    two, many = pipeline_parallel_degree == 2, pipeline_parallel_degree > 2
    missing = two & (first_stage_layers + last_stage_layers != layers) | many & (middle_stage_layers < 1)
    whole = np.mod(first_stage_layers, chunks) + np.mod(last_stage_layers, chunks)
    between = np.mod(middle_stage_layers, chunks) + missing
    fewest = np.minimum(np.minimum(first_stage_layers, last_stage_layers), layers - pipeline_parallel_degree + 1)
    return (whole + between == 0) & (fewest >= virtual_pipeline_stages / chunks)
