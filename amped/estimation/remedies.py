"""What would make a configuration fit in memory: changes of the mapping are tried, and the smallest is given."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from itertools import combinations

from amped.base.errors import AmpedError
from amped.base.numbers import settable
from amped.base.record import dataclass
from amped.configuring.sources import Sources
from amped.engine.evaluate import run
from amped.engine.resolve import plan
from amped.estimation.estimation import Estimation
from amped.pipeline_layouts.laying_out import laid_out, without_own_layout
from amped.theory.nouns.conditions import OFFLOADS

Change = Mapping[str, float | str]
LARGEST_DEGREE = 4096
SWITCHES = ("flash_attention", "sequence_parallel", "activation_function_recomputation", "in_place_norm")
AGAIN = "activation_recomputation"
# For each kind of recomputation, the kinds that keep less.
MORE_AGAIN = {"none": ("selective", "full")} | dict.fromkeys(("selective", "block", "kept_products"), ("full",))
TARGETS = ("fits_in_memory", "step_time")
# What one copy of all weights, gradients and optimizer states takes, and the room for it on an accelerator.
COPY = ("number_of_parameters", "weight_precision", "gradient_precision", "whole_gradient_bytes_per_parameter",
        "optimizer_bytes_per_parameter", "number_of_accelerators", "available_memory_bytes")  # fmt: skip


def smallest_change(estimation: Estimation) -> str:
    """The smallest change that makes the configuration fit, as text; a sentence of advice if no tried change does.

    It tries changes of one parameter, then of two, then larger degrees with all that saves memory; of changes of one
    size it gives the fastest. All else stays, but the data-parallel degree gets smaller if other degrees get larger.
    """
    room = _Room.of(estimation)
    for changes in _changes(estimation):
        times = [
            (time, change)
            for change in changes
            if room.may_hold(change) and (time := _time_if_it_fits(estimation, change)) is not None
        ]
        if times:
            change = min(times, key=lambda pair: pair[0])[1]
            return " and ".join(f"{name} = {v if isinstance(v, str) else settable(v)}" for name, v in change.items())
    return "no smaller micro-batch, recomputation, sharding, offload or splitting does: take more accelerators or more memory"


@dataclass(frozen=True)
class _Room:
    """The least memory of every mapping: one copy of weights, gradients and optimizer states, spread evenly.

    Attributes:
        weight, gradient, optimizer: the bytes of each on an accelerator; 0.0 if they are not known.
        available: the bytes of memory that an accelerator has.
        offloaded: the shares that are offloaded already.
    """

    weight: float
    gradient: float
    optimizer: float
    available: float
    offloaded: Mapping[str, float]

    @classmethod
    def of(cls, e: Estimation) -> _Room:
        """The room of an estimate."""
        offloaded = {name: float(e[name]) if name in e else 0.0 for name in OFFLOADS}
        unbounded = cls(weight=0.0, gradient=0.0, optimizer=0.0, available=0.0, offloaded=offloaded)
        if e.choices.get("adapters", "none") != "none":  # frozen weights have no states, and perhaps 4 bits
            return unbounded
        try:
            copy = run(plan(e.scenario.catalogue, COPY, e.scenario.sources), e.scenario.sources.given)
        except AmpedError:
            return unbounded
        size, weight, gradient, whole, optimizer, accelerators, available = map(copy.number, COPY)
        share = size / accelerators
        gradient = min(gradient, whole) if whole > 0 else gradient
        if (
            e.choices.get("optimizer_placement") == "in_backward"
        ):  # a layer's gradients live until its weights are updated
            gradient = 0.0
        return cls(
            weight=share * weight, gradient=share * gradient, optimizer=share * optimizer,
            available=available, offloaded=offloaded,
        )  # fmt: skip

    def may_hold(self, change: Change) -> bool:
        """Whether a mapping with the change may fit, as far as its weights, gradients and optimizer states say."""
        resident = {name: 1 - float(change.get(name, share)) for name, share in self.offloaded.items()}
        # Gradients may leave with their optimizer states.
        states = (
            resident["optimizer_offload"] * (self.optimizer + self.gradient) + resident["weight_offload"] * self.weight
        )
        return states <= self.available


def _changes(e: Estimation) -> Iterator[list[Change]]:
    """Lists of changes to try, the smallest first: of one parameter, of two, then with ever larger degrees."""
    largest = min(e["largest_microbatch_size"], e["microbatch_size"] - 1)
    size = next((b for b in range(int(largest), 0, -1) if e["minibatch_size"] % b == 0), None)
    smaller: list[Change] = [{"microbatch_size": float(size)}] if size else []
    recomputing: list[Change] = [{AGAIN: mode} for mode in MORE_AGAIN.get(e.choices[AGAIN], ())]
    stages = e.scenario.offered_zero_stages
    sharding: list[Change] = [{"zero_stage": float(stage)} for stage in stages if stage > e["zero_stage"]]
    switches: list[Change] = [{name: 1.0} for name in SWITCHES if name in e and not e[name]]
    share = float(e["fits_in_host_memory"])  # all, or nothing if the host is full
    offloading: list[Change] = [{name: share} for name in OFFLOADS if e[name] != share]
    single = [*smaller, *recomputing, *sharding, *switches, *offloading]
    yield [*single, *_larger(e, 2, {})]
    yield [{**one, **other} for one, other in combinations(single, 2) if not one.keys() & other.keys()]
    strongest: dict[str, float | str] = {"microbatch_size": 1.0}
    for change in (*recomputing[-1:], *sharding[:1], *switches):
        strongest |= change
    yield [strongest]
    for factor in (2, 4, 8, 16, 32, 64):
        yield _larger(e, factor, strongest)


def _larger(e: Estimation, factor: int, others: Change) -> list[Change]:
    """The changes that multiply the tensor or the pipeline degree by a factor, each with the changes `others`."""
    names = [f"{kind}_parallel_degree" for kind in ("tensor", "pipeline")]
    return [{name: e[name] * factor, **others} for name in names if e[name] * factor <= LARGEST_DEGREE]


def _time_if_it_fits(e: Estimation, change: Change) -> float | None:
    """The step time with the change; None if it breaks a rule or does not fit."""
    catalogue = e.scenario.catalogue
    try:
        sources = laid_out(catalogue, without_own_layout(_changed(e, change)))
        chosen = plan(catalogue, (*TARGETS, *catalogue.constraints), sources)
        results = run(chosen, sources.given)
    except AmpedError:
        return None
    return results.number("step_time") if all(results.number(name) for name in chosen.targets) else None


def _changed(e: Estimation, change: Change) -> Sources:
    """The given values and choices of an estimate after a change; the data-parallel degree follows, not the number of accelerators."""
    sources, catalogue = e.scenario.sources, e.scenario.catalogue
    dropped = {name for changed in change for name in catalogue[changed].replaces}
    if any(name.endswith("_parallel_degree") for name in change):
        dropped |= {n for n in sources.given if n.endswith("data_parallel_degree")}
    given = {name: value for name, value in sources.given.items() if name not in dropped}
    if "number_of_nodes" not in given:
        given["number_of_accelerators"] = e["number_of_accelerators"]
    choices = {name: value for name, value in change.items() if isinstance(value, str)}
    numbers = {name: value for name, value in change.items() if name not in choices}
    return replace(sources, given=given | numbers, choices=sources.choices | choices)
