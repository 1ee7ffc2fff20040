"""Chunks of layers on each pipeline stage (virtual stages), with which another mapping may be the fastest one.

A layout with chunks of different sizes is executed pass by pass, so that few numbers of chunks are tried, and each with
the balanced layout. The estimate of the mapping that is chosen finds a better layout.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from amped.base.errors import AmpedError
from amped.configuring.scenario import Scenario
from amped.drafting.fastest import Fastest, fastest
from amped.exploration.search_space import CHUNKS
from amped.exploration.sweep_axes import is_set
from amped.pipeline_layouts.laying_out import ENDS, LAYOUT

# Who gives one of these has chosen the chunks.
HOLDING = (CHUNKS, LAYOUT, "pipeline_schedule", *ENDS)
# The chunks that are tried. More of them are seldom faster, and take long to try.
TRIED = (2.0, 4.0, 8.0)
# Chunks take more memory and send more messages. They are taken if a step is shorter by this share; assumed.
LEAST_GAIN = 0.01


def in_chunks(scenario: Scenario, found: Fastest, vary: Mapping[str, tuple[object, ...]], space: str) -> Fastest:
    """A mapping, or the fastest one whose stages hold several chunks if that is faster by a share that matters.

    Args:
        scenario: the config.
        found: its fastest mapping without chunks.
        vary: values of further names that were searched.
        space: the space that was searched.
    """
    if not found.fits or any(is_set(scenario, name) for name in HOLDING):
        return found
    try:
        chunked = fastest(scenario, {**vary, CHUNKS: TRIED}, space)
    except AmpedError:  # no such mapping is possible
        return found
    shortest_time = min(found.shortest_time, chunked.shortest_time)
    is_better = chunked.fits and chunked.time <= (1 - LEAST_GAIN) * found.time and chunked.keeps >= found.keeps
    return replace(chunked if is_better or chunked.keeps > found.keeps else found, shortest_time=shortest_time)
