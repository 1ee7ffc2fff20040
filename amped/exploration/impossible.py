"""Why a space of mappings is empty, in one sentence: which given degree does not divide what, and the nearest that do.

The formulas of the rules decide, with each degree that is not given at 1. A space is not empty where they hold.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
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

# Rules on what a degree must divide. For each: the quantity that is divided, this quantity in words, and the degree.
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
# The largest degree that is tried.
LARGEST = 8192
# The degrees, and the micro-batch size, that are 1 while one degree is tried alone.
SINGLE = (*wholes(tuple(kind for kind in PLACED if kind != "data")), "expert_parallel_degree",
          "expert_tensor_parallel_degree", MICROBATCH)  # fmt: skip
# The degrees that divide the accelerators.
OF_MACHINE = (*wholes(), "expert_parallel_degree")


def advice(scenario: Scenario, dropping: Iterable[str] = ()) -> str:
    """One sentence on each degree that the user set and that does not divide what it must; empty if all of them do.

    Args:
        scenario: what is asked.
        dropping: the rules that drop mappings of the space. Where too few micro-batches are the reason, layers are not.
    """
    given = scenario.sources.given
    names = [name for name in dict.fromkeys((*wholes(), *SINGLE, CHUNKS)) if is_set(scenario, name)]
    try:
        machine = _Machine(scenario, {n: given[n] for n in names if isinstance(given.get(n), float)})
        rules = {name: scenario.catalogue[name].mark for name in dropping if name in scenario.catalogue}
        lack_microbatches = any(getattr(mark, "constrains", None) == MICROBATCH for mark in rules.values())
        return machine.advice(with_layers=WHOLE_CHUNKS in rules or not lack_microbatches)
    except AmpedError:
        return ""


class _Machine:
    """The sizes that degrees must divide (accelerators, batch, layers, those of SPLITS), and the given degrees."""

    def __init__(self, scenario: Scenario, degrees: Mapping[str, float]) -> None:
        """Computes the sizes with all degrees at 1; `degrees` are the given ones by name."""
        self.degrees, self.catalogue = degrees, scenario.catalogue
        alone = {name: 1.0 for name in (*SINGLE, CHUNKS) if name in self.catalogue}
        kept = {n: v for n, v in scenario.sources.given.items() if n not in (*wholes(), LAYOUT)}
        self.sources = replace(scenario.sources, given={**kept, **alone})
        sizes = {SIZE, BATCH, LAYERS, *(total for total, _, _ in SPLITS.values())}
        results = run(plan(self.catalogue, (), self.sources, tuple(sorted(sizes))), self.sources.given)
        self.sizes = {name: results.number(name) for name in sizes if name in results}
        self.size, self.layers = self.sizes[SIZE], _many(self.sizes.get(LAYERS, 0.0), "layers")
        self.size_is_given, self.laid_out = is_set(scenario, SIZE), LAYOUT in scenario.sources.given

    def advice(self, with_layers: bool) -> str:
        """A sentence for each degree that is impossible alone; else one on all degrees together; empty if all divide.

        Args:
            with_layers: also says which stages and chunks do not divide the layers.
        """
        alone = ". ".join(filter(None, (self._degree_problem(name, value) for name, value in self.degrees.items())))
        return alone or self._product_problem() or (self._layers_problem() if with_layers and not self.laid_out else "")

    def _degree_problem(self, name: str, value: float) -> str:
        """A sentence on what a degree does not divide, with the nearest values that divide it; empty if it divides all."""
        undivided = self._undivided(name, value)
        if not undivided:
            return ""
        near = self._nearest_degrees(name, value)
        take = f"take {_option(name)} {near}" if near else f"leave out {_option(name)}"
        if undivided == [_size(self.size)] and self.size_is_given:
            take += f", or --gpus {_multiples(self.size, value)}"
        return f"{_option(name)} {value:g} does not divide {_and(undivided)}: {take}"

    def _product(self, without: str = "") -> float:
        """The product of the given degrees of the machine, without one of them."""
        return math.prod(value for name, value in self.degrees.items() if name in wholes() and name != without)

    def _product_problem(self) -> str:
        """A sentence if the product of the given degrees does not divide the number of accelerators.

        If it does, a sentence if replicas x micro-batch size do not divide the global batch. Empty if both divide.
        """
        product = self._product()
        if not self.size % product:
            return self._batch_problem()
        product_text = " x ".join(
            f"{_option(name)} {value:g}" for name, value in self.degrees.items() if name in wholes()
        )
        take = f"take --gpus {_multiples(self.size, product)}"
        return f"{product_text} = {product:g} does not divide {_size(self.size)}: {take}"

    def _batch_problem(self) -> str:
        """A sentence if the replicas x the micro-batch size do not divide the global batch; else empty.

        The replicas that nobody gives are the accelerators divided by the other degrees.
        """
        replicas = self.degrees.get(REPLICAS, self.size / self._product(REPLICAS))
        divisor, batch = replicas * self.degrees.get(MICROBATCH, 1.0), self.sizes.get(BATCH, 0.0)
        if not batch % divisor:
            return ""
        microbatch_text = f" x --mbs {self.degrees[MICROBATCH]:g} = {divisor:g}" if MICROBATCH in self.degrees else ""
        take = f"take --gbs {_multiples(batch, divisor)}"
        return f"{_many(replicas, 'replicas')}{microbatch_text} do not divide a batch of {batch:g}: {take}"

    def _layers_problem(self) -> str:
        """A sentence if the given stages or chunks do not divide the layers, or if chunks need several stages; else empty."""
        chunks, stages = self.degrees.get(CHUNKS, 1.0), self.degrees.get(STAGES)
        if chunks == 1.0:
            return self._stages_problem(stages) if stages else ""
        if stages == 1.0:
            return f"--vp {chunks:g} needs several pipeline stages: leave out --vp, or take --pp 2 or more"
        stages_tried = np.array([stages] if stages else divisors(int(self.size))[1:], dtype=np.float64)
        chunks_tried = np.arange(1.0, self.sizes[LAYERS] + 1)
        near = _nearest(
            chunks_tried[self._holding([WHOLE_CHUNKS], {STAGES: stages_tried, CHUNKS: chunks_tried}).any(axis=0)],
            chunks,
        )
        divisor = f"--pp {stages:g} x --vp {chunks:g} = {stages * chunks:g}" if stages else f"--vp {chunks:g}"
        return f"{divisor} does not divide {self.layers}: take --vp {near}" if near else ""

    def _stages_problem(self, stages: float) -> str:
        """A sentence if the given stages do not divide the layers, or are more than the layers and ends fill; else empty."""
        stages_tried = np.array(divisors(int(self.size / self._product(STAGES))), dtype=np.float64)
        most_stages = self.sizes[LAYERS] + SLOTS
        if stages > most_stages:
            take = f"take --pp {stages_tried[stages_tried <= most_stages].max():g} or less"
            return f"--pp {stages:g} is more stages than {self.layers} and both ends of the network fill: {take}"
        near = _nearest(
            stages_tried[self._holding([WHOLE_CHUNKS], {STAGES: stages_tried, CHUNKS: np.ones(1)})[:, 0]], stages
        )
        return f"--pp {stages:g} does not divide {self.layers}: take --pp {near}" if near else ""

    def _undivided(self, name: str, value: float) -> list[str]:
        """What a degree must divide and does not, each with its number, such as "64 attention heads"."""
        machine = [_size(self.size)] if name in OF_MACHINE and self.size % value else []
        broken = [rule for rule in self._rules(name) if not self._holding([rule], {name: np.array([value])})[0]]
        return machine + [_many(self.sizes[SPLITS[rule][0]], SPLITS[rule][1]) for rule in broken]

    def _nearest_degrees(self, name: str, value: float) -> str:
        """The nearest values below and above a degree that keep all rules, in words; empty if there are none.

        If possible, their product with the other given degrees also divides the accelerators.
        """
        others = self._product(name) if name in wholes() else 1.0
        values = np.arange(1.0, LARGEST)
        holds = self._holding(self._rules(name), {name: values})
        if name in OF_MACHINE:
            divides = self.size % values == 0
            product_divides = divides & (self.size % (values * others) == 0)
            holds = holds & (product_divides if (holds & product_divides).any() else divides)
        return _nearest(values[holds], value)

    def _rules(self, name: str) -> list[str]:
        """The rules of SPLITS on a degree whose divided quantity is known."""
        return [rule for rule, (total, _, degree) in SPLITS.items() if degree == name and total in self.sizes]

    def _holding(self, rules: Sequence[str], axes: Columns) -> Mask:
        """For which combinations of values all of some rules hold: an axis for each name of `axes`."""
        chosen = plan(self.catalogue, (), self.sources, tuple(rules))
        results = run(chosen, self.sources.given, axes=axes, keep=frozenset(rules))
        holds: Mask = np.ones([*map(len, axes.values())], dtype=bool)
        for rule in chosen.targets:
            holds = holds & (results[rule][0] > 0)
        return holds


def _nearest(numbers: Array, value: float) -> str:
    """The nearest numbers below and above a value, in words; empty if the value is among the numbers."""
    return "" if value in numbers else _or([*numbers[numbers < value][-1:], *numbers[numbers > value][:1]])


def _option(name: str) -> str:
    """The option of the command line that sets a parameter, such as --tp."""
    return "--" + next((short for short, long in aliases().common.items() if long == name), name)


def _size(number: float) -> str:
    return _many(number, "accelerators")


def _many(number: float, things: str) -> str:
    """A number with its noun, which is given in the plural: "1 expert", "1,024 accelerators"."""
    return f"{number:,.0f} {things.removesuffix('s') if number == 1 else things}"


def _multiples(number: float, factor: float) -> str:
    """The nearest multiples of `factor` below and above a number, in words; zero is left out."""
    return _or([multiple for multiple in (number // factor * factor, (number // factor + 1) * factor) if multiple])


def _and(things: Sequence[str]) -> str:
    return " and ".join(filter(None, (", ".join(things[:-1]), things[-1])))


def _or(numbers: Sequence[float]) -> str:
    return " or ".join(f"{number:g}" for number in numbers)
