"""Sequences that several accelerators share (context parallelism), with which another mapping may be the fastest one.

A split keeps fewer tokens on each accelerator, so that a mapping needs less of what else saves memory: recomputation, or tensor
parallelism across nodes; and a replica of more accelerators has more micro-batches, with which a pipeline waits less. Long sequences
seldom fit without a split, so that all degrees are tried for them. For others, a split is tried where the fastest mapping without one
has something that a split can shorten, and is taken if a step is shorter by a share that matters.
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from dataclasses import replace

from amped.base.errors import AmpedError
from amped.configuring.scenario import Scenario
from amped.drafting.chunks import LEAST_GAIN, fastest_in_chunks
from amped.drafting.fastest import AGAIN, STAGES, Fastest

CONTEXT, TENSOR = "context_parallel_degree", "tensor_parallel_degree"
# From this length on, sequences are long: all degrees are tried. Assumed.
LONG_CONTEXT, CONTEXT_DEGREES = 32_768, (1, 2, 4, 8, 16)
# Shorter sequences keep at least so many tokens on each accelerator, as those of Llama 3.1 405B do in the performance recipes of
# NeMo and Megatron-Bridge (8,192 tokens, context parallelism of 2).
LEAST_TOKENS = 4_096
Tried = Mapping[str, tuple[object, ...]]


def degrees_for(context: float) -> tuple[int, ...]:
    """The degrees that are tried for sequences of `context` tokens; only 1 for short ones."""
    return tuple(
        degree for degree in CONTEXT_DEGREES if context >= LONG_CONTEXT or context / degree >= LEAST_TOKENS
    ) or (1,)


def may_be_split(context: float) -> bool:
    """Whether any degree but 1 is tried for sequences of `context` tokens."""
    return degrees_for(context)[-1] > 1


def fastest_split(scenario: Scenario, vary: Tried, space: str, degrees: tuple[int, ...]) -> Fastest:
    """The fastest mapping of a space, with sequences split in further degrees if a step is shorter by `LEAST_GAIN`.

    Args:
        scenario: as for `fastest`.
        vary: as for `fastest`.
        space: as for `fastest`.
        degrees: the context-parallel degrees that are tried beside those of `vary`; empty if there are none.

    Raises:
        ConfigError: if the degrees of no mapping multiply and divide as they must.
    """
    whole = fastest_in_chunks(scenario, vary, space)
    if not degrees or not _may_gain(scenario, whole):
        return whole
    with suppress(AmpedError):  # no such mapping is possible
        split = fastest_in_chunks(scenario, {**vary, CONTEXT: degrees}, space)
        found = split if is_better(split, whole) else whole
        shortest_time, candidates = min(whole.shortest_time, split.shortest_time), whole.candidates + split.candidates
        return replace(found, shortest_time=shortest_time, candidates=candidates)
    return whole


def _may_gain(scenario: Scenario, whole: Fastest) -> bool:
    """Whether a mapping has something that a split can shorten: a pipeline's wait, messages of tensors, or recomputation.

    Otherwise each accelerator computes whole layers of its own sequences all the time, and a split adds messages.
    """
    values = {**scenario.sources.given, **scenario.sources.choices, **whole.settings}
    is_shared = any(float(values.get(name, 1)) > 1 for name in (TENSOR, STAGES))
    return is_shared or not whole.keeps or whole.settings.get(AGAIN, "none") != "none"


def is_better(split: Fastest, whole: Fastest) -> bool:
    """Whether a mapping fits better in memory than another one or, if both fit alike, is faster by `LEAST_GAIN`."""
    memory, other = ((not found.fits, found.lacking, not found.keeps) for found in (split, whole))
    return memory < other or (memory == other and split.time <= (1 - LEAST_GAIN) * whole.time)
