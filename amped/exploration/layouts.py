"""Pipelines whose stages are unlike: a family for each number of stages and chunks, with the layout that an estimate takes.

A layout is structure: its stages are gone through pass by pass, and its length is that of the records made of it. So it is
found before a plan, for one mapping of each number of stages and chunks, and all mappings of the family have it.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from math import gcd

from amped.base.errors import MappingError
from amped.configuring.sources import Sources
from amped.configuring.values import Value
from amped.estimation.laying_out import ENDS, LAYOUT, PATTERN, laid_out
from amped.exploration.search_space import CHUNKS, Space
from amped.exploration.sweep_axes import EXPERTS, Swept
from amped.theory.catalogue import Catalogue
from amped.theory.parallelisms import divisors

# Layouts that were found, by what they were found for.
Seen = dict[str, Sources]
RECOMPUTATION = "activation_recomputation"
STAGES = "pipeline_parallel_degree"
# Stages of a layout, and chunks of all of them together, above which none is searched: passes are gone through one by one.
MOST_SEARCHED_STAGES, MOST_SEARCHED_CHUNKS = 16, 32
# The embedding and the output head stand for a layer each.
SLOTS = 2


@dataclass(frozen=True)
class Laid:
    """A layout: the stages and chunks that it has, the sources with it in them, and its text."""

    stages: int
    chunks: int
    sources: Sources
    text: str


def layouts(
    known: Catalogue, sources: Sources, machine: tuple[int, int, int], sweeps: Swept, space: Space, seen: Seen
) -> tuple[list[Laid], bool]:
    """The layouts that are searched, and whether mappings without one are; the machine is its size, domain and experts.

    `seen` remembers them for sources that differ in recomputation alone: a layout is found with full recomputation.
    """
    accelerators = machine[0]
    found, even = [], False
    listed = {int(degree) for degree in sweeps.listed.get(STAGES, ())}
    for stages in [d for d in divisors(accelerators) if d in listed or not listed]:
        for chunks in _chunks(stages, sources, sweeps, space):
            alike = _are_alike(sources, machine[2])
            if alike and (not space.networks or sources.given["layers"] % (stages * chunks) == 0):
                even = True
                continue
            try:
                laid = _laid_out(known, _example(sources, stages, chunks, machine), seen)
            except MappingError:  # a layout that is given and has other stages
                continue
            if LAYOUT not in laid.given:
                even = True
            elif sources.given.get(LAYOUT) or chunks * stages <= MOST_SEARCHED_CHUNKS:
                own = {**sources.given, LAYOUT: laid.given[LAYOUT]}
                choices = {**sources.choices, **{n: v for n, v in laid.choices.items() if n not in sources.choices}}
                choices[LAYOUT] = laid.choices[LAYOUT]
                found.append(Laid(stages, chunks, replace(sources, given=own, choices=choices), laid.choices[LAYOUT]))
    return found, even or not found


def _are_alike(sources: Sources, experts: int) -> bool:
    """Whether all layers are alike and nobody says which stage has which: then those that divide need no layout."""
    given = sources.given
    return experts == 1 and "layers" in given and PATTERN not in sources.choices and not given.keys() & {LAYOUT, *ENDS}


def _laid_out(known: Catalogue, example: Sources, seen: Seen) -> Sources:
    fullest = replace(example, choices={**example.choices, RECOMPUTATION: "full"})
    key = repr(sorted(fullest.given.items())) + repr(sorted(fullest.choices.items()))
    if key not in seen:
        seen[key] = laid_out(known, fullest)
    return seen[key]


def _chunks(stages: int, sources: Sources, sweeps: Swept, space: Space) -> Iterator[int]:
    """Chunks of a stage that are tried: powers of two, unless they are listed."""
    listed = sweeps.listed.get(CHUNKS)
    if stages > MOST_SEARCHED_STAGES and LAYOUT not in sources.given:
        yield from ()
    elif listed or not space.chunks or stages == 1:
        yield from (int(chunks) for chunks in listed or (_given_chunks(sources, stages),))
    else:
        most = min(MOST_SEARCHED_CHUNKS, int(sources.given.get("layers", MOST_SEARCHED_CHUNKS)) + SLOTS)
        yield from (2**power for power in range(most.bit_length()) if stages * 2**power <= most)


def _given_chunks(sources: Sources, stages: int) -> float:
    given = sources.given.get(CHUNKS, 1.0)
    return float(given) if stages > 1 else 1.0


def _example(sources: Sources, stages: int, chunks: int, machine: tuple[int, int, int]) -> Sources:
    """The sources of one mapping with so many stages and chunks, by which layers are balanced."""
    accelerators, domain, experts = machine
    places = accelerators // stages
    own: dict[str, Value] = {
        STAGES: float(stages), CHUNKS: float(chunks), "tensor_parallel_degree": float(gcd(places, domain)),
        "context_parallel_degree": 1.0, "microbatch_size": 1.0, EXPERTS: float(gcd(places, experts)),
        "expert_tensor_parallel_degree": 1.0, "flash_attention": 1.0, "zero_stage": 1.0,
    }  # fmt: skip
    return replace(sources, given={**own, **sources.given, STAGES: float(stages), CHUNKS: float(chunks)})
