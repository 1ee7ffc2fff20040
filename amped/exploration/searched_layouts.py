"""Pipelines whose stages differ: a family for each number of stages and chunks, with the layout that an estimate takes.

A layout is structure: the schedule goes through its stages pass by pass, and the number of stage records depends on it.
It is therefore chosen before the plan, for one or two mappings of each number of stages and chunks; all mappings are
searched with these layouts. Where all layers are alike and the stages divide them, the layout is the best of a
few balanced ones; `amped estimate` compares the steps of many.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import field, replace
from math import gcd
from typing import Any

from amped.base.errors import MappingError
from amped.base.record import dataclass
from amped.configuring.layout_text import Layout
from amped.configuring.sources import Sources
from amped.configuring.values import Value
from amped.exploration.one_case import Case
from amped.exploration.search_space import CHUNKS, MICROBATCH
from amped.exploration.sweep_axes import EXPERTS, Swept
from amped.pipeline_layouts.laying_out import ENDS, KINDS, LAYOUT, PATTERNS, SLOTS, Effort, laid_out
from amped.theory.language.catalogue import Catalogue
from amped.theory.nouns.divisors import divisors

# The sources with a layout, by the text of the sources for which the layout was found.
Seen = dict[str, Sources]
RECOMPUTATION, LINEAR_KIND = "activation_recomputation", "linear_attention_kind"
STAGES, TENSOR = "pipeline_parallel_degree", "tensor_parallel_degree"
# Layouts with more stages, or more chunks in total, are searched only if the user gives these numbers: the schedule goes
# through all passes one by one.
MOST_SEARCHED_STAGES, MOST_SEARCHED_CHUNKS = 16, 32


@dataclass
class Postponed:
    """Layouts with several chunks on a stage, which take long to find.

    A first search leaves them out, and a second search seeks only those that may be faster.

    Attributes:
        later: the pairs (stages, chunks per stage) that a first search left out.
        wanted: the pairs that a second search seeks, and nothing else; None in the first search.
    """

    later: set[tuple[int, int]] = field(default_factory=set)
    wanted: frozenset[tuple[int, int]] | None = None

    def is_left_out(self, stages: int, chunks: int) -> bool:
        """Whether this is a second search that does not seek these numbers of stages and chunks."""
        return self.wanted is not None and (stages, chunks) not in self.wanted

    def is_postponed(self, stages: int, chunks: int) -> bool:
        """Whether this is a first search that leaves these numbers out; it then notes them in `later`."""
        is_postponed = self.wanted is None and chunks > 1
        if is_postponed:
            self.later.add((stages, chunks))
        return is_postponed


@dataclass(frozen=True)
class Layouts:
    """The search for the layouts of a case.

    Attributes:
        catalogue: all formulas.
        sweeps: what the user and the space sweep.
        seen: layouts that were found before. A layout is chosen with full recomputation, so that cases with other
            recomputation have the same.
        postponed: which layouts are sought now; None: all.
        case: the case.
    """

    catalogue: Catalogue
    sweeps: Swept
    seen: Seen
    postponed: Postponed | None
    case: Case

    @property
    def given(self) -> Mapping[str, Any]:
        """The given values of the case."""
        return self.case.sources.given

    def searched(self) -> tuple[list[tuple[int, Sources]], bool]:
        """The layouts that are searched, and whether mappings without a layout are searched, too.

        For each layout, there is its number of stages, and the sources of the case with the layout.

        Raises:
            MappingError: if no number of stages goes with the layout that the user gives.
        """
        layouts, has_even, refusal = dict[tuple[int, int, str], Sources](), False, self._error_without_stages()
        postponed = self.postponed
        for stages, chunks in self._stages_and_chunks():
            if postponed is not None and postponed.is_left_out(stages, chunks):
                continue
            if self._are_alike() and not (self.sweeps.space.experts and self.given["layers"] % (stages * chunks)):
                has_even = True
                continue
            is_searched = self._is_searched(stages, chunks)
            if not is_searched and self.given.get("layers", 0.0) % (stages * chunks):
                continue  # it needs a layout
            if postponed is not None and postponed.is_postponed(stages, chunks):
                continue
            try:
                laid_out = [self._laid_out(example) for example in self._examples(stages, chunks)]
            except MappingError as error:  # the config gives a layout with another number of stages
                refusal = error
                continue
            if LAYOUT not in laid_out[0].given or not (self.sweeps.space.experts or self._is_wanted(laid_out[0])):
                has_even = True
            elif is_searched:
                layouts |= {
                    (stages, chunks, sources.choices[LAYOUT]): self._with_layout(sources, chunks)
                    for sources in laid_out
                }
        if refusal and not (layouts or has_even):
            raise refusal
        is_second = postponed is not None and postponed.wanted is not None
        has_even = has_even or not (layouts or is_second)
        return [(stages, sources) for (stages, _, _), sources in layouts.items()], has_even

    def _stages_and_chunks(self) -> Iterator[tuple[int, int]]:
        """The pairs (stages, chunks per stage) that are tried."""
        listed = self.sweeps.listed.get(STAGES)
        for stages in divisors(self.case.accelerators):
            if not listed or stages in listed:
                yield from ((stages, int(chunks)) for chunks in self._chunks(stages))

    def _is_searched(self, stages: int, chunks: int) -> bool:
        """Whether a layout with these numbers is sought: there are few chunks, or the user gives the numbers or a layout."""
        listed = self.sweeps.listed
        are_listed = STAGES in listed and (chunks == 1 or CHUNKS in listed)
        return chunks * stages <= MOST_SEARCHED_CHUNKS or LAYOUT in self.given or are_listed

    def _with_layout(self, laid: Sources, chunks: int) -> Sources:
        """The sources of the case, which have no mapping, with the layout of `laid` and its number of chunks per stage."""
        given = {**self.given, LAYOUT: laid.given[LAYOUT], CHUNKS: float(chunks)}
        choices = {**laid.choices, **self.case.sources.choices, LAYOUT: laid.choices[LAYOUT]}
        return replace(self.case.sources, given=given, choices=choices)

    def _error_without_stages(self) -> MappingError | None:
        """The error for a layout in letters if no number of stages fits; None if the user gives no such layout.

        A number of stages must divide the accelerators and the chunks of the layout.
        """
        if not (layout := self._layout_in_letters()):
            return None
        return MappingError(
            f"{LAYOUT} = {layout} lists {len(layout.chunks)} chunks, and {STAGES} must divide them and {self.case.accelerators} accelerators",
            f"change {STAGES}, or leave {LAYOUT} out: amped balances the layers",
        )

    def _layout_in_letters(self) -> Layout | None:
        """The layout that the user gives, if it is in letters; else None."""
        layout = Layout(self.given.get(LAYOUT, ""))
        return layout if layout.in_letters else None

    def _are_alike(self) -> bool:
        """Whether all layers are alike and the user gives no layout; stages that divide the layers then need no layout."""
        is_open = not {*PATTERNS, LINEAR_KIND} & self.case.sources.choices.keys() and not self.given.keys() & {
            LAYOUT,
            *ENDS,
        }
        return self.case.experts == 1 and "layers" in self.given and is_open

    def _is_wanted(self, laid: Sources) -> bool:
        """Whether a layout is searched in any space: the user gives it, or it has layers of two kinds."""
        return bool(self.given.keys() & {LAYOUT, *ENDS}) or KINDS in laid.choices

    def _laid_out(self, example: Sources) -> Sources:
        """The sources of a mapping with a layout that is chosen with full recomputation; each is computed once."""
        fullest = replace(example, choices={**example.choices, RECOMPUTATION: "full"})
        key = repr(sorted(fullest.given.items())) + repr(sorted(fullest.choices.items()))
        if key not in self.seen:
            self.seen[key] = laid_out(self.catalogue, fullest, self._effort(int(fullest.given[STAGES])))
        return self.seen[key]

    def _effort(self, stages: int) -> Effort:
        """How a layout is found: few are compared where all layers are alike and each stage has equally many.

        There a layout only says which chunks have a layer more.
        """
        if self.sweeps.space.balanced:
            return Effort.BALANCED
        return Effort.FEW if self._are_alike() and self.given["layers"] % stages == 0 else Effort.MANY

    def _chunks(self, stages: int) -> Sequence[float]:
        """The numbers of chunks per stage that are tried: listed ones, else that of a layout in letters, else powers of two.

        If the space does not search chunks, it is the given number; none are tried with too many stages.
        """
        listed = self.sweeps.listed.get(CHUNKS)
        if not listed and (layout := self._layout_in_letters()):
            listed = (max(len(layout.chunks) // stages, 1),)
        if stages > MOST_SEARCHED_STAGES and LAYOUT not in self.given and STAGES not in self.sweeps.listed:
            return ()
        if listed or not self.sweeps.space.chunks or stages == 1:
            return listed or (self.given.get(CHUNKS, 1.0) if stages > 1 else 1.0,)
        if stages > MOST_SEARCHED_CHUNKS:
            return (1,)
        most_chunks = min(MOST_SEARCHED_CHUNKS, int(self.given.get("layers", MOST_SEARCHED_CHUNKS)) + SLOTS)
        return [2**power for power in range(most_chunks.bit_length()) if stages * 2**power <= most_chunks]

    def _examples(self, stages: int, chunks: int) -> Iterator[Sources]:
        """The sources of one or two mappings with these numbers of stages and chunks. A layout is found for each of them.

        The first mapping has the smallest tensor degree. In a dense network the second one has the largest, with which the
        output head and a layer take other shares of the time. Experts are spread over the fast domain.
        """
        case, listed = self.case, self.sweeps.listed
        places_in_domain = gcd(case.accelerators // stages, case.domain)
        tensor_degrees = listed.get(TENSOR) or (1.0, float(places_in_domain))
        pipeline = {STAGES: float(stages), CHUNKS: float(chunks)}
        extremes = {min(tensor_degrees), max(tensor_degrees)} if case.experts == 1 else {min(tensor_degrees)}
        for degree in sorted(extremes):
            mapping: dict[str, Value] = {
                TENSOR: degree, "context_parallel_degree": 1.0, MICROBATCH: min(listed.get(MICROBATCH) or (1.0,)),
                EXPERTS: max(listed.get(EXPERTS) or (float(gcd(places_in_domain, case.experts)),)),
                "expert_tensor_parallel_degree": 1.0, "flash_attention": 1.0, "zero_stage": 1.0,
            }  # fmt: skip
            yield replace(case.sources, given={**mapping, **self.given, **pipeline})
