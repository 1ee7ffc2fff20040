"""Pipelines whose stages differ: a family for each number of stages and chunks, with the layout that an estimate takes.

A layout is structure: the schedule goes through its stages pass by pass, and the number of stage records depends on it.
It is therefore chosen before the plan, for one or two mappings of each number of stages and chunks; all mappings are
searched with these layouts.
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


@dataclass(frozen=True)
class Layouts:
    """The layouts of a case.

    Attributes:
        seen: layouts for sources that differ only in recomputation, because a layout is chosen with full recomputation.
        postponed: says which layouts are sought now; all of them if it is None.
    """

    catalogue: Catalogue
    sweeps: Swept
    seen: Seen
    postponed: Postponed | None
    case: Case

    @property
    def given(self) -> Mapping[str, Any]:
        """What is given."""
        return self.case.sources.given

    def searched(self) -> tuple[list[tuple[int, Sources]], bool]:
        """The layouts that are searched, and whether mappings without a layout are searched, too.

        A layout is its number of stages, and the sources of the case with it.
        """
        layouts, even, refused = dict[tuple[int, int, str], Sources](), False, self._no_number_of_stages()
        postponed = self.postponed
        for stages, chunks in self._sizes():
            if postponed is not None and postponed.is_left_out(stages, chunks):
                continue
            if self._are_alike() and not (self.sweeps.space.experts and self.given["layers"] % (stages * chunks)):
                even = True
                continue
            is_searched = self._is_searched(stages, chunks)
            if not is_searched and self.given.get("layers", 0.0) % (stages * chunks):
                continue  # it needs a layout
            if postponed is not None and postponed.is_postponed(stages, chunks):
                continue
            try:
                laid_out = [self._laid_out(example) for example in self._examples(stages, chunks)]
            except MappingError as error:  # the config gives a layout with another number of stages
                refused = error
                continue
            if LAYOUT not in laid_out[0].given or not (self.sweeps.space.experts or self._is_wanted(laid_out[0])):
                even = True
            elif is_searched:
                layouts |= {(stages, chunks, laid.choices[LAYOUT]): self._with(laid, chunks) for laid in laid_out}
        if refused and not (layouts or even):
            raise refused
        is_second = postponed is not None and postponed.wanted is not None
        return [(stages, sources) for (stages, _, _), sources in layouts.items()], even or not (layouts or is_second)

    def _sizes(self) -> Iterator[tuple[int, int]]:
        """The numbers of stages, and of chunks on each, that are tried."""
        listed = self.sweeps.listed.get(STAGES)
        for stages in divisors(self.case.accelerators):
            if not listed or stages in listed:
                yield from ((stages, int(chunks)) for chunks in self._chunks(stages))

    def _is_searched(self, stages: int, chunks: int) -> bool:
        """Whether there are few chunks in total, or the user gives the layout, or the stages and, if there are several, the chunks."""
        listed = self.sweeps.listed
        are_listed = STAGES in listed and (chunks == 1 or CHUNKS in listed)
        return chunks * stages <= MOST_SEARCHED_CHUNKS or LAYOUT in self.given or are_listed

    def _with(self, laid: Sources, chunks: int) -> Sources:
        """The sources of the case, which have no mapping, with the layout of some laid out sources."""
        given = {**self.given, LAYOUT: laid.given[LAYOUT], CHUNKS: float(chunks)}
        choices = {**laid.choices, **self.case.sources.choices, LAYOUT: laid.choices[LAYOUT]}
        return replace(self.case.sources, given=given, choices=choices)

    def _no_number_of_stages(self) -> MappingError | None:
        """The error if a layout in letters is given, and no number of stages divides the accelerators and its chunks."""
        if not (layout := self._in_letters()):
            return None
        return MappingError(
            f"{LAYOUT} = {layout} lists {len(layout.chunks)} chunks, and {STAGES} must divide them and {self.case.accelerators} accelerators",
            f"change {STAGES}, or leave {LAYOUT} out: amped balances the layers",
        )

    def _in_letters(self) -> Layout | None:
        """The layout that is given, if it is one in letters."""
        layout = Layout(self.given.get(LAYOUT, ""))
        return layout if layout.in_letters else None

    def _are_alike(self) -> bool:
        """Whether all layers are alike and the user gives no layout; then numbers of stages that divide need no layout."""
        is_open = PATTERN not in self.case.sources.choices and not self.given.keys() & {LAYOUT, *ENDS}
        return self.case.experts == 1 and "layers" in self.given and is_open

    def _is_wanted(self, laid: Sources) -> bool:
        """Whether a layout is given, or layers of two kinds need one; a space of degrees has no other layouts."""
        return bool(self.given.keys() & {LAYOUT, *ENDS}) or KINDS in laid.choices

    def _laid_out(self, example: Sources) -> Sources:
        fullest = replace(example, choices={**example.choices, RECOMPUTATION: "full"})
        key = repr(sorted(fullest.given.items())) + repr(sorted(fullest.choices.items()))
        if key not in self.seen:
            self.seen[key] = laid_out(self.catalogue, fullest, not self.sweeps.space.balanced)
        return self.seen[key]

    def _chunks(self, stages: int) -> Sequence[float]:
        """The numbers of chunks of a stage that are tried: powers of two, or those that are listed, or that a layout has."""
        listed = self.sweeps.listed.get(CHUNKS)
        if not listed and (layout := self._in_letters()):
            listed = (max(len(layout.chunks) // stages, 1),)
        if stages > MOST_SEARCHED_STAGES and LAYOUT not in self.given and STAGES not in self.sweeps.listed:
            return ()
        if listed or not self.sweeps.space.chunks or stages == 1:
            return listed or (self.given.get(CHUNKS, 1.0) if stages > 1 else 1.0,)
        if stages > MOST_SEARCHED_CHUNKS:
            return (1,)
        most = min(MOST_SEARCHED_CHUNKS, int(self.given.get("layers", MOST_SEARCHED_CHUNKS)) + SLOTS)
        return [2**power for power in range(most.bit_length()) if stages * 2**power <= most]

    def _examples(self, stages: int, chunks: int) -> Iterator[Sources]:
        """The sources of mappings with this number of stages and chunks, for which the layers are balanced.

        One has the smallest tensor degree. In a dense network another one has the largest, with which the output head and a
        layer take other shares of the time. Experts are spread over the fast domain.
        """
        case, listed = self.case, self.sweeps.listed
        places = gcd(case.accelerators // stages, case.domain)
        tensor = listed.get(TENSOR) or (1.0, float(places))
        pipeline = {STAGES: float(stages), CHUNKS: float(chunks)}
        for degree in sorted({min(tensor), max(tensor)} if case.experts == 1 else {min(tensor)}):
            mapping: dict[str, Value] = {
                TENSOR: degree, "context_parallel_degree": 1.0, MICROBATCH: min(listed.get(MICROBATCH) or (1.0,)),
                EXPERTS: max(listed.get(EXPERTS) or (float(gcd(places, case.experts)),)),
                "expert_tensor_parallel_degree": 1.0, "flash_attention": 1.0, "zero_stage": 1.0,
            }  # fmt: skip
            yield replace(case.sources, given={**mapping, **self.given, **pipeline})
