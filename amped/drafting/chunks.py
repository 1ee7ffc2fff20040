"""Chunks of layers on each pipeline stage (virtual stages), with which another mapping may be the fastest one.

A layout with chunks of different sizes is executed pass by pass, so that few numbers of chunks are tried, and each with
the balanced layout. The estimate of the mapping that is chosen finds a better layout.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from amped.base.errors import AmpedError
from amped.configuring.scenario import Scenario
from amped.drafting.fastest import Fastest, fastest, fastest_of_each
from amped.exploration.search_space import CHUNKS
from amped.exploration.sweep_axes import is_set
from amped.pipeline_layouts.laying_out import ENDS, LAYOUT

# Who gives one of these has chosen the chunks.
HOLDING = (CHUNKS, LAYOUT, "pipeline_schedule", *ENDS)
# The chunks that are tried. More of them are seldom faster, and take long to try.
TRIED = (2.0, 4.0, 8.0)
# Chunks take more memory and send more messages. They are taken if a step is shorter by this share; assumed.
LEAST_GAIN = 0.01


def is_held(scenario: Scenario) -> bool:
    """Whether the user has chosen the chunks."""
    return any(is_set(scenario, name) for name in HOLDING)


def fastest_in_chunks(scenario: Scenario, vary: Mapping[str, tuple[object, ...]], space: str) -> Fastest:
    """The fastest mapping of a space, with several chunks of layers per stage if a step is shorter by `LEAST_GAIN`.

    The arguments are those of `fastest`. If the user has chosen the chunks, no other number of them is tried.

    Raises:
        ConfigError: if the degrees of no mapping multiply and divide as they must.
    """
    if is_held(scenario):
        return fastest(scenario, vary, space)
    try:
        whole, chunked = fastest_of_each(scenario, {**vary, CHUNKS: (1.0, *TRIED)}, space, LEAST_GAIN)
    except AmpedError:  # no such mapping is possible: it is told without chunks
        return fastest(scenario, vary, space)
    whole = replace(whole, settings={name: v for name, v in whole.settings.items() if name != CHUNKS})
    if not whole.fits:
        return whole
    shortest_time = min(whole.shortest_time, chunked.shortest_time)
    is_better = chunked.fits and chunked.time <= (1 - LEAST_GAIN) * whole.time and chunked.keeps >= whole.keeps
    return replace(chunked if is_better or chunked.keeps > whole.keeps else whole, shortest_time=shortest_time)
