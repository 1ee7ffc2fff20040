"""Why a space of mappings is empty, in one sentence: which given degree does not divide what, and the nearest that do.

The formulas of the rules decide, with each degree that is not given at 1. A space is not empty where they hold.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np

from amped.base.aliases import aliases
from amped.base.errors import AmpedError
from amped.configuring.scenario import Scenario
from amped.engine.evaluate import Array, Columns, Mask, run
from amped.engine.resolve import plan
from amped.exploration.search_space import CHUNKS, MICROBATCH, wholes
from amped.exploration.sweep_axes import is_set
from amped.pipeline_layouts.laying_out import LAYOUT, SLOTS
from amped.theory.nouns.divisors import divisors
from amped.theory.nouns.parallelisms import PLACED

# The rules that say what a degree divides: what each divides, in words, by the names of the degrees.
SPLITS = {
    "attention_heads_divide_by_the_tensor_degree": ("attention_heads", "attention heads", "tensor_parallel_degree"),
    "key_heads_match_the_tensor_degree": ("key_value_heads", "key heads", "tensor_parallel_degree"),
    "the_feedforward_network_divides_by_the_tensor_degree":
        ("feedforward_dimension", "hidden units", "tensor_parallel_degree"),
    "the_context_divides_by_the_context_degree": ("context", "tokens of a sequence", "context_parallel_degree"),
    "experts_divide_by_the_expert_degree": ("number_of_experts", "experts", "expert_parallel_degree"),
    "experts_divide_by_the_expert_tensor_degree":
        ("expert_feedforward_dimension", "hidden units of an expert", "expert_tensor_parallel_degree"),
}  # fmt: skip
SIZE, BATCH, LAYERS, STAGES = "number_of_accelerators", "batch_size", "layers", "pipeline_parallel_degree"
REPLICAS = "data_parallel_degree"
# The rule on the chunks of the stages of a pipeline.
WHOLE_CHUNKS = "layers_divide_by_stages_and_chunks"
# The largest degree that is tried, and what makes the rest of the machine one accelerator.
LARGEST = 8192
SINGLE = (*wholes(tuple(kind for kind in PLACED if kind != "data")), "expert_parallel_degree",
          "expert_tensor_parallel_degree", MICROBATCH)  # fmt: skip
# The degrees that divide the accelerators.
OF_MACHINE = (*wholes(), "expert_parallel_degree")


def advice(scenario: Scenario) -> str:
    """One sentence on each degree that the user set and that does not divide what it must; empty if all of them do."""
    given = scenario.sources.given
    names = [name for name in dict.fromkeys((*wholes(), *SINGLE, CHUNKS)) if is_set(scenario, name)]
    try:
        return _Machine(scenario, {n: given[n] for n in names if isinstance(given.get(n), float)}).advice()
    except AmpedError:
        return ""


class _Machine:
    """What is split, and the given degrees that split it."""

    def __init__(self, scenario: Scenario, degrees: Mapping[str, float]) -> None:
        self.degrees, self.catalogue = degrees, scenario.catalogue
        alone = {name: 1.0 for name in (*SINGLE, CHUNKS) if name in self.catalogue}
        kept = {n: v for n, v in scenario.sources.given.items() if n not in (*wholes(), LAYOUT)}
        self.sources = replace(scenario.sources, given={**kept, **alone})
        sizes = {SIZE, BATCH, LAYERS, *(total for total, _, _ in SPLITS.values())}
        results = run(plan(self.catalogue, (), self.sources, tuple(sorted(sizes))), self.sources.given)
        self.sizes = {name: results.number(name) for name in sizes if name in results}
        self.size, self.layers = self.sizes[SIZE], _many(self.sizes.get(LAYERS, 0.0), "layers")
        self.size_is_given, self.laid_out = is_set(scenario, SIZE), LAYOUT in scenario.sources.given

    def advice(self) -> str:
        """A sentence for each degree that is impossible alone; else one on their product."""
        alone = ". ".join(filter(None, (self._of(name, value) for name, value in self.degrees.items())))
        return alone or self._of_all() or ("" if self.laid_out else self._of_layers())

    def _of(self, name: str, value: float) -> str:
        """What a degree does not divide, and the nearest that divide it all."""
        undivided = self._undivided(name, value)
        if not undivided:
            return ""
        near = self._near(name, value)
        take = f"take {_option(name)} {near}" if near else f"leave out {_option(name)}"
        if undivided == [_size(self.size)] and self.size_is_given:
            take += f", or --gpus {_multiples(self.size, value)}"
        return f"{_option(name)} {value:g} does not divide {_and(undivided)}: {take}"

    def _product(self, without: str = "") -> float:
        """The product of the given degrees of the machine, without one of them."""
        return math.prod(value for name, value in self.degrees.items() if name in wholes() and name != without)

    def _of_all(self) -> str:
        """That the product of the given degrees does not divide the accelerators, or what a batch divides by the batch."""
        product = self._product()
        if not self.size % product:
            return self._of_batch()
        by = " x ".join(f"{_option(name)} {value:g}" for name, value in self.degrees.items() if name in wholes())
        take = f"take --gpus {_multiples(self.size, product)}"
        return f"{by} = {product:g} does not divide {_size(self.size)}: {take}"

    def _of_batch(self) -> str:
        """That a given batch does not divide by its replicas and the micro-batch, where these are given."""
        replicas = self.degrees.get(REPLICAS, self.size / self._product(REPLICAS))
        shares, batch = replicas * self.degrees.get(MICROBATCH, 1.0), self.sizes.get(BATCH, 0.0)
        if not batch % shares:
            return ""
        by = f" x --mbs {self.degrees[MICROBATCH]:g} = {shares:g}" if MICROBATCH in self.degrees else ""
        take = f"take --gbs {_multiples(batch, shares)}"
        return f"{_many(replicas, 'replicas')}{by} do not divide a batch of {batch:g}: {take}"

    def _of_layers(self) -> str:
        """That the given stages of a pipeline, or their chunks, do not divide the layers; or that chunks need several stages."""
        chunks, stages = self.degrees.get(CHUNKS, 1.0), self.degrees.get(STAGES)
        if chunks == 1.0:
            return self._of_stages(stages) if stages else ""
        if stages == 1.0:
            return f"--vp {chunks:g} needs several pipeline stages: leave out --vp, or take --pp 2 or more"
        several = np.array([stages] if stages else divisors(int(self.size))[1:], dtype=np.float64)
        whole = np.arange(1.0, self.sizes[LAYERS] + 1)
        near = _nearest(whole[self._holding([WHOLE_CHUNKS], {STAGES: several, CHUNKS: whole}).any(axis=0)], chunks)
        by = f"--pp {stages:g} x --vp {chunks:g} = {stages * chunks:g}" if stages else f"--vp {chunks:g}"
        return f"{by} does not divide {self.layers}: take --vp {near}" if near else ""

    def _of_stages(self, stages: float) -> str:
        """That the given stages of a pipeline do not divide the layers, or are more than there are layers."""
        several = np.array(divisors(int(self.size / self._product(STAGES))), dtype=np.float64)
        most = self.sizes[LAYERS] + SLOTS
        if stages > most:
            take = f"take --pp {several[several <= most].max():g} or less"
            return f"--pp {stages:g} is more stages than {self.layers} and both ends of the network fill: {take}"
        near = _nearest(several[self._holding([WHOLE_CHUNKS], {STAGES: several, CHUNKS: np.ones(1)})[:, 0]], stages)
        return f"--pp {stages:g} does not divide {self.layers}: take --pp {near}" if near else ""

    def _undivided(self, name: str, value: float) -> list[str]:
        """What a degree does not divide, with its number."""
        machine = [_size(self.size)] if name in OF_MACHINE and self.size % value else []
        broken = [rule for rule in self._rules(name) if not self._holding([rule], {name: np.array([value])})[0]]
        return machine + [_many(self.sizes[SPLITS[rule][0]], SPLITS[rule][1]) for rule in broken]

    def _near(self, name: str, value: float) -> str:
        """The nearest degrees below and above that divide the machine, with the other given degrees, and all else."""
        others = self._product(name) if name in wholes() else 1.0
        whole = np.arange(1.0, LARGEST)
        holds = self._holding(self._rules(name), {name: whole})
        if name in OF_MACHINE:
            alone = self.size % whole == 0
            together = alone & (self.size % (whole * others) == 0)
            holds = holds & (together if (holds & together).any() else alone)
        return _nearest(whole[holds], value)

    def _rules(self, name: str) -> list[str]:
        return [rule for rule, (total, _, degree) in SPLITS.items() if degree == name and total in self.sizes]

    def _holding(self, rules: Sequence[str], axes: Columns) -> Mask:
        """For which combinations of some values some rules hold."""
        chosen = plan(self.catalogue, (), self.sources, tuple(rules))
        results = run(chosen, self.sources.given, axes=axes, keep=frozenset(rules))
        holds: Mask = np.ones([*map(len, axes.values())], dtype=bool)
        for rule in chosen.targets:
            holds = holds & (results[rule][0] > 0)
        return holds


def _nearest(numbers: Array, value: float) -> str:
    """The nearest numbers below and above a value, in words; nothing if the value is among them."""
    return "" if value in numbers else _or([*numbers[numbers < value][-1:], *numbers[numbers > value][:1]])


def _option(name: str) -> str:
    """The shortest option of a parameter."""
    return "--" + next((short for short, long in aliases().common.items() if long == name), name)


def _size(number: float) -> str:
    return _many(number, "accelerators")


def _many(number: float, things: str) -> str:
    """A number of things: "1 expert", "1,024 accelerators"."""
    return f"{number:,.0f} {things.removesuffix('s') if number == 1 else things}"


def _multiples(number: float, of: float) -> str:
    """The nearest multiples below and above a number, in words."""
    return _or([multiple for multiple in (number // of * of, (number // of + 1) * of) if multiple])


def _and(things: Sequence[str]) -> str:
    return " and ".join(filter(None, (", ".join(things[:-1]), things[-1])))


def _or(numbers: Sequence[float]) -> str:
    return " or ".join(f"{number:g}" for number in numbers)
