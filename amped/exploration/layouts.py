"""Pipelines whose stages differ: a family for each number of stages and chunks, with the layout that an estimate takes.

A layout is structure: the schedule goes through its stages pass by pass, and the number of stage records depends on it.
It is therefore chosen before the plan, for one mapping of each number of stages and chunks; all mappings of the family
have it.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from math import gcd

from amped.base.errors import MappingError
from amped.base.record import dataclass
from amped.configuring.sources import Sources
from amped.configuring.values import Value
from amped.estimation.laying_out import ENDS, KINDS, LAYOUT, PATTERN, laid_out
from amped.exploration.search_space import CHUNKS, Space
from amped.exploration.sweep_axes import EXPERTS, Swept
from amped.theory.catalogue import Catalogue
from amped.theory.divisors import divisors

# Layouts that were found, by the sources that they were found for.
Seen = dict[str, Sources]
RECOMPUTATION = "activation_recomputation"
STAGES = "pipeline_parallel_degree"
# Layouts with more stages, or more chunks in total, are not searched: the schedule goes through all passes one by one.
MOST_SEARCHED_STAGES, MOST_SEARCHED_CHUNKS = 16, 32
# The embedding and the output head count as one layer each.
SLOTS = 2


@dataclass(frozen=True)
class Laid:
    """A layout: its number of stages and chunks, the sources that contain it, and its text."""

    stages: int
    chunks: int
    sources: Sources
    text: str


def layouts(
    known: Catalogue, sources: Sources, machine: tuple[int, int, int], sweeps: Swept, space: Space, seen: Seen
) -> tuple[list[Laid], bool]:
    """The layouts that are searched, and whether mappings without a layout are searched, too.

    `machine` is the number of accelerators, the size of the fast domain and the number of experts. `seen` remembers
    layouts for sources that differ only in recomputation, because a layout is chosen with full recomputation.
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
            except MappingError:  # the config gives a layout with another number of stages
                continue
            if LAYOUT not in laid.given or not (space.networks or _is_wanted(sources, laid)):
                even = True
            elif sources.given.get(LAYOUT) or chunks * stages <= MOST_SEARCHED_CHUNKS:
                own = {**sources.given, LAYOUT: laid.given[LAYOUT]}
                choices = {**sources.choices, **{n: v for n, v in laid.choices.items() if n not in sources.choices}}
                choices[LAYOUT] = laid.choices[LAYOUT]
                found.append(Laid(stages, chunks, replace(sources, given=own, choices=choices), laid.choices[LAYOUT]))
    return found, even or not found


def _are_alike(sources: Sources, experts: int) -> bool:
    """Whether all layers are alike and the user gives no layout; then numbers of stages that divide need no layout."""
    given = sources.given
    return experts == 1 and "layers" in given and PATTERN not in sources.choices and not given.keys() & {LAYOUT, *ENDS}


def _is_wanted(sources: Sources, laid: Sources) -> bool:
    """Whether a layout is given, or layers of two kinds need one; a space of degrees has no other layouts."""
    return bool(sources.given.keys() & {LAYOUT, *ENDS}) or KINDS in laid.choices


def _laid_out(known: Catalogue, example: Sources, seen: Seen) -> Sources:
    fullest = replace(example, choices={**example.choices, RECOMPUTATION: "full"})
    key = repr(sorted(fullest.given.items())) + repr(sorted(fullest.choices.items()))
    if key not in seen:
        seen[key] = laid_out(known, fullest)
    return seen[key]


def _chunks(stages: int, sources: Sources, sweeps: Swept, space: Space) -> Iterator[int]:
    """The numbers of chunks of a stage that are tried: powers of two, or those that are listed."""
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
    """The sources of one mapping with this number of stages and chunks, for which the layers are balanced."""
    accelerators, domain, experts = machine
    places = accelerators // stages
    own: dict[str, Value] = {
        STAGES: float(stages), CHUNKS: float(chunks), "tensor_parallel_degree": float(gcd(places, domain)),
        "context_parallel_degree": 1.0, "microbatch_size": 1.0, EXPERTS: float(gcd(places, experts)),
        "expert_tensor_parallel_degree": 1.0, "flash_attention": 1.0, "zero_stage": 1.0,
    }  # fmt: skip
    return replace(sources, given={**own, **sources.given, STAGES: float(stages), CHUNKS: float(chunks)})
