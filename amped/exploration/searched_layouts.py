"""Pipelines whose stages differ: a family for each number of stages and chunks, with the layout that an estimate takes.

A layout is structure: the schedule goes through its stages pass by pass, and the number of stage records depends on it.
It is therefore chosen before the plan, for one or two mappings of each number of stages and chunks; all mappings are
searched with these layouts.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import field, replace
from math import gcd

from amped.base.errors import MappingError
from amped.base.record import dataclass
from amped.configuring.layout_text import Layout
from amped.configuring.sources import Sources
from amped.configuring.values import Value
from amped.exploration.search_space import CHUNKS, MICROBATCH, Space
from amped.exploration.sweep_axes import EXPERTS, Swept
from amped.pipeline_layouts.laying_out import ENDS, KINDS, LAYOUT, PATTERN, SLOTS, laid_out
from amped.theory.language.catalogue import Catalogue
from amped.theory.nouns.divisors import divisors

# Layouts that were found, by the sources that they were found for.
Seen = dict[str, Sources]
RECOMPUTATION = "activation_recomputation"
STAGES, TENSOR = "pipeline_parallel_degree", "tensor_parallel_degree"
# Layouts with more stages, or more chunks in total, are searched only if the user gives these numbers: the schedule goes
# through all passes one by one.
MOST_SEARCHED_STAGES, MOST_SEARCHED_CHUNKS = 16, 32


@dataclass(frozen=True)
class Laid:
    """A layout: its number of stages and chunks, the sources that contain it, and its text."""

    stages: int
    chunks: int
    sources: Sources
    text: str


@dataclass
class Postponed:
    """Layouts with several chunks on a stage, which take long to seek: they are sought where it is shown that they may gain.

    Attributes:
        later: the numbers of stages and chunks for which none is sought in a first search.
        wanted: those of them for which a second search seeks one, and nothing else; None in the first search.
    """

    later: set[tuple[int, int]] = field(default_factory=set)
    wanted: frozenset[tuple[int, int]] | None = None

    def is_left_out(self, stages: int, chunks: int) -> bool:
        """Whether a second search has nothing with these numbers."""
        return self.wanted is not None and (stages, chunks) not in self.wanted

    def is_postponed(self, stages: int, chunks: int) -> bool:
        """Whether a layout with these numbers is not sought yet."""
        if self.wanted is None and chunks > 1:
            self.later.add((stages, chunks))
        return self.wanted is None and chunks > 1


def layouts(
    known: Catalogue, sources: Sources, machine: tuple[int, int, int], sweeps: Swept, space: Space, seen: Seen,
    postponed: Postponed | None = None,
) -> tuple[list[Laid], bool]:  # fmt: skip
    """The layouts that are searched, and whether mappings without a layout are searched, too.

    `machine` is the number of accelerators, the size of the fast domain and the number of experts. `seen` remembers
    layouts for sources that differ only in recomputation, because a layout is chosen with full recomputation.
    `postponed` says which layouts are sought now; all of them if it is None.
    """
    found, even, refused = dict[tuple[int, int, str], Laid](), False, _no_number_of_stages(sources, machine[0])
    for stages, chunks in _sizes(machine[0], sources, sweeps, space):
        if postponed is not None and postponed.is_left_out(stages, chunks):
            continue
        if _are_alike(sources, machine[2]) and (not space.experts or sources.given["layers"] % (stages * chunks) == 0):
            even = True
            continue
        is_searched = _is_searched(stages, chunks, sources, sweeps)
        if not is_searched and sources.given.get("layers", 0.0) % (stages * chunks):
            continue  # it needs a layout
        if postponed is not None and postponed.is_postponed(stages, chunks):
            continue
        try:
            examples = _examples(sources, stages, chunks, machine, sweeps)
            each = [_laid_out(known, e, seen, not space.balanced) for e in examples]
        except MappingError as error:  # the config gives a layout with another number of stages
            refused = error
            continue
        if LAYOUT not in each[0].given or not (space.experts or _is_wanted(sources, each[0])):
            even = True
        elif is_searched:
            found |= {(stages, chunks, laid.choices[LAYOUT]): _held(sources, laid, stages, chunks) for laid in each}
    if refused and not (found or even):
        raise refused
    return [*found.values()], even or not (found or (postponed is not None and postponed.wanted is not None))


def _sizes(accelerators: int, sources: Sources, sweeps: Swept, space: Space) -> Iterator[tuple[int, int]]:
    """The numbers of stages, and of chunks on each, that are tried."""
    listed = {int(degree) for degree in sweeps.listed.get(STAGES, ())}
    for stages in [d for d in divisors(accelerators) if d in listed or not listed]:
        yield from ((stages, chunks) for chunks in _chunks(stages, sources, sweeps, space))


def _is_searched(stages: int, chunks: int, sources: Sources, sweeps: Swept) -> bool:
    """Whether there are few chunks in total, or the user gives the layout, or the stages and, if there are several, the chunks."""
    asked = STAGES in sweeps.listed and (chunks == 1 or CHUNKS in sweeps.listed)
    return chunks * stages <= MOST_SEARCHED_CHUNKS or LAYOUT in sources.given or asked


def _held(sources: Sources, laid: Sources, stages: int, chunks: int) -> Laid:
    """The layout of some laid out sources, in the sources without a mapping."""
    own = {**sources.given, LAYOUT: laid.given[LAYOUT], CHUNKS: float(chunks)}
    choices = {**sources.choices, **{n: v for n, v in laid.choices.items() if n not in sources.choices}}
    choices[LAYOUT] = laid.choices[LAYOUT]
    return Laid(stages, chunks, replace(sources, given=own, choices=choices), laid.choices[LAYOUT])


def _no_number_of_stages(sources: Sources, accelerators: int) -> MappingError | None:
    """The error if a layout in letters is given, and no number of stages divides the accelerators and its chunks."""
    wanted = sources.given.get(LAYOUT)
    if wanted is None or not Layout(wanted).in_letters:
        return None
    return MappingError(
        f"{LAYOUT} = {wanted} lists {len(Layout(wanted).chunks)} chunks, and {STAGES} must divide them and {accelerators} accelerators",
        f"change {STAGES}, or leave {LAYOUT} out: amped balances the layers",
    )


def _are_alike(sources: Sources, experts: int) -> bool:
    """Whether all layers are alike and the user gives no layout; then numbers of stages that divide need no layout."""
    given = sources.given
    return experts == 1 and "layers" in given and PATTERN not in sources.choices and not given.keys() & {LAYOUT, *ENDS}


def _is_wanted(sources: Sources, laid: Sources) -> bool:
    """Whether a layout is given, or layers of two kinds need one; a space of degrees has no other layouts."""
    return bool(sources.given.keys() & {LAYOUT, *ENDS}) or KINDS in laid.choices


def _laid_out(known: Catalogue, example: Sources, seen: Seen, is_compared: bool) -> Sources:
    fullest = replace(example, choices={**example.choices, RECOMPUTATION: "full"})
    key = repr(sorted(fullest.given.items())) + repr(sorted(fullest.choices.items()))
    if key not in seen:
        seen[key] = laid_out(known, fullest, is_compared)
    return seen[key]


def _chunks(stages: int, sources: Sources, sweeps: Swept, space: Space) -> Iterator[int]:
    """The numbers of chunks of a stage that are tried: powers of two, or those that are listed, or that a layout has."""
    listed, wanted = sweeps.listed.get(CHUNKS), sources.given.get(LAYOUT)
    if wanted is not None and not listed and Layout(wanted).in_letters:
        listed = (max(len(Layout(wanted).chunks) // stages, 1),)
    if stages > MOST_SEARCHED_STAGES and LAYOUT not in sources.given and STAGES not in sweeps.listed:
        yield from ()
    elif listed or not space.chunks or stages == 1:
        yield from (int(chunks) for chunks in listed or (_given_chunks(sources, stages),))
    else:
        yield from (1,) * (stages > MOST_SEARCHED_CHUNKS)
        most = min(MOST_SEARCHED_CHUNKS, int(sources.given.get("layers", MOST_SEARCHED_CHUNKS)) + SLOTS)
        yield from (2**power for power in range(most.bit_length()) if stages * 2**power <= most)


def _given_chunks(sources: Sources, stages: int) -> float:
    given = sources.given.get(CHUNKS, 1.0)
    return float(given) if stages > 1 else 1.0


def _examples(
    sources: Sources, stages: int, chunks: int, machine: tuple[int, int, int], sweeps: Swept
) -> Iterator[Sources]:
    """The sources of mappings with this number of stages and chunks, for which the layers are balanced.

    One has the smallest tensor degree. In a dense network another one has the largest, with which the output head and a
    layer take other shares of the time. Experts are spread over the fast domain.
    """
    _, domain, experts = machine
    places = gcd(machine[0] // stages, domain)
    tensor = sweeps.listed.get(TENSOR) or (1.0, float(places))
    for degree in sorted({min(tensor), max(tensor)} if experts == 1 else {min(tensor)}):
        own: dict[str, Value] = {
            STAGES: float(stages), CHUNKS: float(chunks), TENSOR: degree,
            "context_parallel_degree": 1.0, MICROBATCH: min(sweeps.listed.get(MICROBATCH) or (1.0,)),
            EXPERTS: max(sweeps.listed.get(EXPERTS) or (float(gcd(places, experts)),)),
            "expert_tensor_parallel_degree": 1.0, "flash_attention": 1.0, "zero_stage": 1.0,
        }  # fmt: skip
        yield replace(sources, given={**own, **sources.given, STAGES: float(stages), CHUNKS: float(chunks)})
