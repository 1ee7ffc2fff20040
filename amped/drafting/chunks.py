"""Chunks of layers on each pipeline stage (virtual stages), which the chooser tries for a few mappings.

A search of all mappings with chunks would take seconds, because a layout with chunks of different sizes is executed
pass by pass.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace

from amped.base.errors import AmpedError
from amped.configuring.scenario import Scenario, asked_again
from amped.drafting.fastest import AGAIN, Fastest, fastest
from amped.estimation.laying_out import ENDS, LAYOUT, STAGES
from amped.exploration.search_space import CHUNKS, wholes
from amped.exploration.sweep_axes import is_set
from amped.theory.divisors import divisors

# Who gives one of these has chosen the chunks.
HOLDING = (CHUNKS, LAYOUT, "pipeline_schedule", *ENDS)
# What is held while chunks are tried.
KEPT = (*wholes(), "expert_parallel_degree", "expert_tensor_parallel_degree", "microbatch_size", "zero_stage", AGAIN)
# The chunks that are tried where layers do not divide by the stages.
OF_UNLIKE = (2.0, 4.0)
# Chunks take more memory and send more messages. They are taken if a step is shorter by this share; assumed.
LEAST_GAIN = 0.01


def in_chunks(scenario: Scenario, found: Fastest, vary: Mapping[str, tuple[object, ...]], space: str) -> Fastest:
    """A mapping, or one whose stages hold several chunks if that is faster by a share that matters.

    Chunks are tried for the mapping itself, and for the fastest ones of half and of twice as many stages.

    Args:
        scenario: the config.
        found: its fastest mapping without chunks.
        vary: values of further names that were searched.
        space: the space that was searched.
    """
    stages = found.settings.get(STAGES, 1.0)
    if (
        not isinstance(stages, float)
        or stages == 1.0
        or not found.fits
        or any(is_set(scenario, name) for name in HOLDING)
    ):
        return found
    tried = [found, *_kin(scenario, stages, vary, space)]
    chunked = [each for mapping in tried for each in _chunked(scenario, mapping, space) if each.fits]
    best = min(chunked, key=lambda each: each.time, default=found)
    return best if best.time <= (1 - LEAST_GAIN) * found.time else found


def _kin(scenario: Scenario, stages: float, vary: Mapping[str, tuple[object, ...]], space: str) -> Iterator[Fastest]:
    """The fastest mappings of half as many stages, and of twice as many where the layers divide by them."""
    others = [stages / 2] if stages > 2 and stages % 2 == 0 else []
    others += [2 * stages] if scenario.sources.given["layers"] % (2 * stages) == 0 else []
    for number in others if not is_set(scenario, STAGES) else ():
        try:
            yield fastest(asked_again(scenario.question, {STAGES: number}), vary, space)
        except AmpedError:  # no such mapping is possible
            continue


def _chunked(scenario: Scenario, mapping: Fastest, space: str) -> Iterator[Fastest]:
    """A mapping with the number of chunks that is fastest."""
    layers, stages = int(scenario.sources.given["layers"]), int(float(str(mapping.settings[STAGES])))
    each = layers // stages
    even = [float(d) for d in divisors(each) if d > 1]
    chunks = even if layers % stages == 0 else [n for n in OF_UNLIKE if n <= each]
    held = {name: value for name, value in mapping.settings.items() if name in KEPT}
    try:
        found = fastest(asked_again(scenario.question, held), {CHUNKS: tuple(chunks)}, space)
    except AmpedError:  # the batch, or a rule, leaves no room for chunks
        return
    yield replace(found, settings={**held, **found.settings})
