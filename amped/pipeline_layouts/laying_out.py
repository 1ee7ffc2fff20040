"""The layout of a pipeline, found before anything is planned: how many layers of which kind each chunk has.

What the user gives is kept: a layout, or the layers of the first and the last stage. If the layers divide, each chunk
gets equally many. Otherwise the whole steps of many layouts are compared: balanced ones, whose longest stage is as short
as memory allows, and those in which chunks one after another have equally many layers. From the best ones the search
goes on to layouts near them, until none of the best ones is new (a beam search). A network needs no layout if its layers
are all alike and divide.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from enum import IntEnum
from functools import cached_property
from typing import Any

import numpy as np

from amped.base.errors import MappingError, Problem, ResolveError
from amped.base.record import dataclass
from amped.configuring.layout_text import LAYER, PREDICTION, Layout, counted, written_layout
from amped.configuring.sources import Sources
from amped.engine.evaluate import Results, run, run_layouts
from amped.engine.resolve import chosen_values, plan
from amped.pipeline_layouts.balance import Room, Row, balanced, even, nearby
from amped.pipeline_layouts.layer_order import BLOCKS as SINGLE_BLOCKS
from amped.pipeline_layouts.layer_order import (
    COUNTED,
    LINEAR_PATTERN,
    LINEARS,
    MIXTURE_PATTERN,
    MIXTURES,
    LayerOrder,
    layer_order,
    patterned_numbers,
)
from amped.pipeline_layouts.starts import in_runs
from amped.theory.language.catalogue import Catalogue
from amped.theory.memory.stage_bytes import bytes_with
from amped.theory.nouns.pass_records import Pipe
from amped.theory.schedules.orders import SCHEDULES

LAYOUT, KINDS = "pipeline_layout", "kinds_of_layers"
PATTERNS = (MIXTURE_PATTERN, LINEAR_PATTERN, SINGLE_BLOCKS)
STAGES, CHUNKS = "pipeline_parallel_degree", "virtual_pipeline_stages"
ENDS = ("number_of_first_stage_layers", "number_of_last_stage_layers")
MODULES = "multi_token_prediction_layers"
SPLITTING = ("layers", STAGES, CHUNKS)
NUMBERS = (*SPLITTING, *COUNTED, MODULES)
# The results of a trial layout from which the balanced layout is found.
TIMES = ("kind_times", "embedding_time", "output_head_time")
BYTES = (
    "pipeline_stages", "stage_microbatches_in_flight", "parameter_groups", "parameter_classes", "kind_parameters", "embedding_parameters",
    "output_head_stage_parameters", "tied_embedding_parameters", "output_head_stage_expert_parameters",
    "replicated_embedding", "model_states", "kept_gradient_fraction", "live_gradient_bytes", "kind_activations", "embedding_activation_bytes", "output_head_activation_bytes",
    "available_memory_bytes", "memory_headroom_fraction", "memory_headroom_bytes", "passing_gradient_bytes_per_parameter", "layer_working_bytes",
    "weight_buffer_bytes", "logits_gradient_bytes", "longest_microbatch_factor", "tower_class_parameters",
)  # fmt: skip
# The results by which layouts near the balanced one are compared.
STEP = ("step_time", "keeps_memory_headroom", "fits_in_memory", "layers_divide_by_stages_and_chunks")
# The embedding and the output head count as one layer each.
SLOTS = 2
# The most chunks for each layer and end of a network for which a layout is sought.
MOST_CHUNKS = 4
# Balanced layouts count the output head so many times its length: its own, and one for stages that wait for it.
HEADS = (1.0, 2.0)
# How often the steps of all layouts near the best ones are compared, and the most chunks of which they are.
MOST_ROUNDS, MOST_COMPARED_CHUNKS = 20, 64
# Layouts with so many chunks together are computed at once: more take more memory, and fewer more time.
AT_ONCE = 131_072
# A search goes on from at most so many layouts; in a round, layouts with at most so many chunks together are compared.
MOST_BEST, MOST_IN_A_ROUND = 8, 600_000


class Effort(IntEnum):
    """How a layout is found: the balanced one, the best of few, or the best that a search among many reaches."""

    BALANCED, FEW, MANY = range(3)


def laid_out(catalogue: Catalogue, sources: Sources, effort: Effort = Effort.MANY) -> Sources:
    """The sources with a layout of the pipeline added, if the pipeline needs one; else the sources unchanged.

    Args:
        catalogue: the formulas.
        sources: the given values and choices.
        effort: the balanced layout takes a fifth of the time of comparing the steps of many; FEW compares balanced ones alone.

    Raises:
        MappingError: for a layout or a pattern with wrong sums, or if the user chose the kinds of layers.
    """
    if (chosen := sources.origins.get(KINDS)) is not None:
        raise MappingError(Problem(f"'{KINDS}' cannot be given: amped finds it", chosen.where, "leave it out"))
    if ":" in str(sources.given.get(LAYOUT, "")):
        return sources
    choices = chosen_values(catalogue, sources)
    if _is_plainly_even(catalogue, sources, choices):
        return sources
    numbers = _numbers(catalogue, sources)
    if numbers is None or not (_is_unlike(sources, choices, numbers) or _is_uneven(sources, choices, numbers)):
        return sources
    slots = numbers["layers"] + numbers[MODULES] + SLOTS
    if LAYOUT not in sources.given and max(numbers[STAGES], numbers[STAGES] * numbers[CHUNKS] / MOST_CHUNKS) > slots:
        return sources  # a rule reports that a stage has nothing; to balance thousands of empty chunks takes minutes
    return _Pipeline(catalogue, _patterned(sources, numbers), choices, numbers, effort).laid_out()


def without_own_layout(sources: Sources) -> Sources:
    """The sources without the layout that amped found; a layout that the user gave stays."""
    if LAYOUT in sources.origins:
        return sources
    given, choices = (
        {n: v for n, v in values.items() if n not in (LAYOUT, KINDS)} for values in (sources.given, sources.choices)
    )
    return replace(sources, given=given, choices=choices)


def _is_plainly_even(catalogue: Catalogue, sources: Sources, choices: Mapping[str, str]) -> bool:
    """Whether given numbers alone show that no layout is needed: all layers are alike, and all chunks have equally many."""
    if choices["feedforward_kind"] == "mixture" or choices["linear_attention_kind"] != "none":
        return False
    if {LAYOUT, *PATTERNS, *ENDS} & {*sources.given, *sources.choices}:
        return False
    formulas = {name: catalogue[name].chosen({*sources.given}, choices) for name in SPLITTING}
    defaults = {name: f.function() for name, f in formulas.items() if f is not None and not f.arguments}
    layers, stages, virtual = (sources.given.get(name, defaults.get(name)) or 0 for name in SPLITTING)
    chunks = SCHEDULES[choices["pipeline_schedule"]].chunks or virtual
    return min(layers, stages, chunks) > 0 and layers % (stages * chunks) == 0


def _numbers(catalogue: Catalogue, sources: Sources) -> Mapping[str, int] | None:
    """The values of NUMBERS by name; None if one is unknown or is no usable whole number, which the estimate reports."""
    try:
        results = run(plan(catalogue, NUMBERS, sources), sources.given)
    except ResolveError:
        return None
    numbers = {name: results.number(name) for name in NUMBERS}
    are_whole = all(number % 1 == 0 and 0 <= number < 1e6 for number in numbers.values())
    are_usable = are_whole and numbers[STAGES] * numbers[CHUNKS]
    return {name: int(number) for name, number in numbers.items()} if are_usable else None


def _is_unlike(sources: Sources, choices: Mapping[str, str], numbers: Mapping[str, int]) -> bool:
    """Whether there may be layers of several kinds."""
    several = 0 < numbers[MIXTURES] < numbers["layers"] and choices["feedforward_kind"] == "mixture"
    several |= 0 < numbers[LINEARS] < numbers["layers"]
    return several or any(name in sources.choices for name in PATTERNS)


def _is_uneven(sources: Sources, choices: Mapping[str, str], numbers: Mapping[str, int]) -> bool:
    """Whether a layout is given, or needed because the layers of some stage do not divide into its chunks."""
    ends = [int(sources.given[name]) for name in ENDS if name in sources.given]
    chunks = SCHEDULES[choices["pipeline_schedule"]].chunks or numbers[CHUNKS]
    if not ends or numbers[STAGES] < 2:
        return sources.given.get(LAYOUT) is not None or numbers["layers"] % (numbers[STAGES] * chunks) > 0
    between, others = numbers["layers"] - sum(ends), numbers[STAGES] - len(ends)
    if min(*ends, between) < 0 or between % max(others, 1) or (not others and between):
        return False  # a rule reports what is wrong with them
    return any(layers % chunks for layers in (*ends, between // max(others, 1)))


def _patterned(sources: Sources, numbers: Mapping[str, int]) -> Sources:
    """The sources with the numbers of layers that patterns list; unchanged without a pattern.

    Raises:
        MappingError: if a pattern lists another number of layers than the network has.
    """
    listed = patterned_numbers(sources.choices, numbers)
    return replace(sources, given=sources.given | listed) if listed else sources


@dataclass(frozen=True)
class _Pipeline:
    """A pipeline that gets a layout.

    Attributes:
        sources: the given values and choices.
        choices: the value of every selector, also of those that nobody gives.
        numbers: the values of NUMBERS by name.
        effort: whether whole steps of layouts are compared, and of how many.
    """

    catalogue: Catalogue
    sources: Sources
    choices: Mapping[str, str]
    numbers: Mapping[str, int]
    effort: Effort

    def laid_out(self) -> Sources:
        """The sources with the layout; unchanged if the user's layout lists other stages or layers than there are."""
        if self.wanted is not None and self._contradicts(self.wanted):
            return self.sources  # a rule reports what is wrong with it
        return self._with(self._per_chunk())

    def _with(self, layers: Sequence[int]) -> Sources:
        """The sources with a layout that is given by the number of layers of each chunk."""
        counts = self._counts(np.array([layers]))[0].tolist()
        given = self.sources.given | {LAYOUT: counted(counts)}
        if self.letters and self.schedule.chunks is None:
            given[CHUNKS] = float(self.chunks)
        text = str(self.wanted) if self.wanted else written_layout(counts, self.schedule.first_has_the_output_head)
        kinds = {KINDS: self.order.name} if self.order.name else {}
        return replace(self.sources, given=given, choices=self.sources.choices | {LAYOUT: text} | kinds)

    @cached_property
    def wanted(self) -> Layout | None:
        """The layout that the user gives, or None."""
        text = self.sources.given.get(LAYOUT)
        return None if text is None else Layout(text)

    @cached_property
    def letters(self) -> Sequence[str]:
        """The letters of each chunk, if the user gives a layout in letters; else empty."""
        return self.wanted.chunks if self.wanted is not None and self.wanted.in_letters else ()

    @cached_property
    def schedule(self) -> Any:
        return SCHEDULES[self.choices["pipeline_schedule"]]

    @cached_property
    def stages(self) -> int:
        return self.numbers[STAGES]

    @cached_property
    def chunks(self) -> int:
        """The number of chunks of each stage: from the letters of a layout, else from the schedule, else as given."""
        if self.letters:
            return max(len(self.letters) // self.stages, 1)
        alone = self.stages == self.numbers[CHUNKS] == 1
        return 1 if alone else self.schedule.chunks or self.numbers[CHUNKS]

    @cached_property
    def places(self) -> list[tuple[int, int]]:
        """For each chunk in the order of the network, its stage and its number on that stage."""
        pipe = Pipe(self.stages, 1, self.chunks)
        places = {self.schedule.place(pipe, c, s): (s, c) for s in range(self.stages) for c in range(self.chunks)}
        return [places[place] for place in range(len(places))]

    @cached_property
    def order(self) -> LayerOrder:
        """The kind of each layer."""
        numbers = {**self.numbers} | {name: int(self.sources.given.get(name, self.numbers[name])) for name in COUNTED}
        return layer_order(self.sources.choices, numbers, self.choices["feedforward_kind"] == "mixture")

    @cached_property
    def modules(self) -> list[int]:
        """The number of prediction modules of each chunk: from the letters of a layout, else all with the output head."""
        beside_head = [0] * (len(self.places) - 1) + [self.numbers[MODULES]]
        return [chunk.count(PREDICTION) for chunk in self.letters] or beside_head

    def _contradicts(self, layout: Layout) -> bool:
        """Whether a given layout lists other stages or layers than there are.

        Raises:
            MappingError: if a layout in letters does.
        """
        if not self.letters:
            return len(layout.counts) != self.stages or sum(self._per_stage() or ()) != self.numbers["layers"]
        if disagreements := "; ".join(self._disagreements()):
            raise MappingError(disagreements, f"change {LAYOUT} = {layout}, or leave it out: amped balances the layers")
        return False

    def _disagreements(self) -> Iterator[str]:
        """A sentence for each number in which the letters of a layout differ from the network or the pipeline."""
        number, chunks = len(self.letters), self.schedule.chunks or self.sources.given.get(CHUNKS)
        if number % self.stages or (chunks is not None and number != chunks * self.stages):
            virtual = f" x virtual_pipeline_stages = {chunks:g}" if chunks is not None else ""
            yield f"it lists {number} chunks, and pipeline_parallel_degree = {self.stages}{virtual}"
        for letter, name in ((LAYER, "layers"), (PREDICTION, MODULES)):
            listed = "".join(self.letters).count(letter)
            if listed != self.numbers[name]:
                yield f"it lists {listed} {letter}, and {name} = {self.numbers[name]}"

    def _per_chunk(self) -> list[int]:
        """The number of layers of each chunk, in the order of the network."""
        if self.letters:
            return [chunk.count(LAYER) for chunk in self.letters]
        given = self._per_stage()
        if given is not None:
            in_chunks = [even(layers, self.chunks) for layers in given]
            if self.stages > 1:  # chunks with an end of the network get fewer layers
                in_chunks[0].reverse()
            return [in_chunks[stage][chunk] for stage, chunk in self.places]
        layers, number_of_chunks = self.numbers["layers"], len(self.places)
        return self._balanced() if layers % number_of_chunks else even(layers, number_of_chunks)

    def _per_stage(self) -> list[int] | None:
        """The number of layers of each stage, if the user gives a layout or the layers of an end; else None."""
        if self.wanted is not None:
            return [int(sum(stage[0])) for stage in self.wanted.counts]
        first, last = ([int(self.sources.given[name])] if name in self.sources.given else [] for name in ENDS)
        ends = first + last
        if not ends or self.stages < 2:
            return None
        return first + even(self.numbers["layers"] - sum(ends), self.stages - len(ends)) + last

    def _balanced(self) -> list[int]:
        """The number of layers of each chunk in the layout with the shortest step.

        Times and bytes come from a trial, a layout that is nearly even. If the trial has no step, or there are too many
        chunks, the layout is the balanced one.
        """
        stage_of_chunk = [stage for stage, _ in self.places]
        row = Row(times=[1.0] * len(self.order.places), first=0.0, last=0.0, stage_of_chunk=stage_of_chunk)
        trial = self._trial()
        if trial is not None and TIMES[0] in trial.cells:
            row = self._timed(trial)  # the closed form has no times of kinds of layers: there, all layers count alike
        if (
            trial is None
            or STEP[0] not in trial.cells
            or len(stage_of_chunk) > MOST_COMPARED_CHUNKS
            or self.effort == Effort.BALANCED
        ):
            return balanced(row)
        starts = [balanced(replace(row, last=times * row.last)) for times in HEADS]
        starts = [*starts, even(self.numbers["layers"], len(stage_of_chunk))]
        if self.effort == Effort.FEW:
            return [int(layers) for layers in self._shortest(trial, np.array(starts), 1)[0]]
        return self._quickest(trial, starts)

    def _trial(self) -> Results | None:
        """The results of a layout that is nearly even; None if they cannot be computed.

        Of several lists of results, the first one is taken for which there are formulas.
        """
        trial = self._with(even(self.numbers["layers"], len(self.places)))
        for_balance = (*TIMES, *BYTES)
        lists_of_results = (
            ((*for_balance, *STEP), for_balance, STEP) if self.effort > Effort.BALANCED else (for_balance,)
        )
        for wanted in lists_of_results:
            with suppress(ResolveError):
                return run(plan(self.catalogue, wanted, trial), trial.given)
        return None

    def _quickest(self, trial: Results, starts: Sequence[Sequence[int]]) -> list[int]:
        """The number of layers of each chunk in the best layout that moves and exchanges reach from the best starts.

        The balanced layout has the shortest longest stage. A step has more: the time in which stages wait for each
        other, which depends on their order, and what is done once per step, on the stage with the most parameters.

        Args:
            trial: the results of a trial layout.
            starts: further layouts to begin with, beside those of `in_runs`.
        """
        layouts = np.concatenate([np.array([*starts]), in_runs(self.numbers["layers"], len(self.places))])
        most = int(np.clip(MOST_IN_A_ROUND // len(self.places) ** 3, 1, MOST_BEST))
        best, seen = self._shortest(trial, layouts, most), set[tuple[int, ...]]()
        for _ in range(MOST_ROUNDS):
            fresh = [layout for layout in map(tuple, best.tolist()) if layout not in seen]
            if not fresh:
                break
            seen |= {*fresh}
            best = self._shortest(trial, np.concatenate([best, *map(nearby, fresh)]), most)
        return [int(layers) for layers in best[0]]

    def _shortest(self, trial: Results, layouts: np.ndarray, most: int) -> np.ndarray:
        """At most so many layouts (a row each) with the shortest steps, the best first.

        Layouts that keep the rule of chunks stand before all others. Among these, layouts that fit in memory stand first,
        and among these, layouts that leave the headroom free.
        """
        layouts = layouts[np.sort(np.unique(layouts.astype(np.int32), axis=0, return_index=True)[1])]
        parts = np.array_split(layouts, -(-layouts.size // AT_ONCE))
        step, *verdicts = np.concatenate([self._steps(trial, part) for part in parts], axis=1)
        return layouts[np.lexsort((step, *(1 - verdict for verdict in verdicts)))[:most]]

    def _steps(self, trial: Results, layouts: np.ndarray) -> np.ndarray:
        """The values of STEP, a row each, for each layout, a column."""
        results = run_layouts(trial, LAYOUT, self._counts(layouts))
        return np.stack([np.broadcast_to(results.spread(name).ravel(), len(layouts)) for name in STEP])

    def _counts(self, layouts: np.ndarray) -> np.ndarray:
        """The number of layers of each kind, and then of modules, by layout, stage and chunk: an array of four axes.

        Args:
            layouts: the number of layers of each chunk (a column) in each layout (a row).
        """
        stop = np.cumsum(layouts, axis=1)
        kinds = [
            before.take(stop, mode="clip") - before.take(stop - layouts, mode="clip")  # a rule tells wrong sums
            for before in self.layers_before
        ]
        counts = np.empty((len(layouts), self.stages, self.chunks, len(kinds) + 1), int)
        stages, chunks = map(list, zip(*self.places, strict=True))
        counts[:, stages, chunks] = np.stack([*kinds, np.broadcast_to(self.modules, layouts.shape)], axis=-1)
        return counts

    @cached_property
    def layers_before(self) -> list[np.ndarray]:
        """For each kind, the number of its layers before each layer, and in all."""
        kinds = range(self.order.number_of_kinds)
        return [np.cumsum([0, *(place == kind for place in self.order.places)]) for kind in kinds]

    def _timed(self, trial: Results) -> Row:
        """The times of the layers and of both ends of the network, and the memory of stages, from a trial layout."""
        kinds = self.order.places
        times = [t.forward + t.input_gradient + t.weight_gradient for t in trial.records("kind_times")]
        of_modules = self.numbers[MODULES] * times[-1]  # they are beside the output head
        return Row(
            times=[times[kind] for kind in kinds],
            first=trial.number("embedding_time"),
            last=trial.number("output_head_time") + of_modules,
            stage_of_chunk=[stage for stage, _ in self.places],
            fits=self._room(trial, kinds, len(times)),
        )

    def _room(self, trial: Results, kinds: Sequence[int], number_of_kinds: int) -> Room:
        """The function that tells whether a stage has room for some ranges of layers.

        Args:
            trial: the results of a trial layout, from which the bytes come.
            kinds: the kind of each layer, as its place in the results of the trial.
            number_of_kinds: how many kinds these results have; the last one is that of a prediction module.
        """
        values: dict[str, Any] = {
            n: trial.records(n) if self.catalogue[n].mark.kind == "records" else trial.number(n) for n in BYTES
        }
        kinds_added = (None, *range(number_of_kinds))
        bytes_of = [[bytes_with(values, stage, kind) for kind in kinds_added] for stage in range(self.stages)]

        def fits(stage: int, ranges: Sequence[tuple[int, int]]) -> bool:
            """Whether a stage has room for the layers of some ranges, beside its share of the ends and modules."""
            base, *with_kind = bytes_of[stage]
            modules = self.numbers[MODULES] * (stage == self.places[-1][0])
            layers = sum((with_kind[kinds[n]] - base) for start, stop in ranges for n in range(start, stop))
            needed = base + layers + modules * (with_kind[-1] - base)
            headroom = needed * values["memory_headroom_fraction"] + values["memory_headroom_bytes"]
            return bool(needed + headroom <= values["available_memory_bytes"])

        return fits
