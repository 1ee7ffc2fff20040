"""Drawn configs: networks, machines, mappings and switches at random, those of one structure evaluated in one go."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from random import Random
from types import ModuleType
from typing import Any

import numpy as np

from amped.configuring.scenario import Scenario, read_scenario
from amped.engine.axes import JointAxis
from amped.engine.evaluate import Array, run
from amped.engine.resolve import Plan, plan
from amped.theory.language.catalogue import catalogue
from amped.theory.language.quantity import ACCELERATOR, NETWORK, SYSTEM
from amped.theory.nouns.parallelisms import PARALLELISMS
from tests.helpers.formulas import sectioned

Values = dict[str, Any]

DENSE = ("Llama 3 70B", "GPT-3 175B", "Phi-3 small")
MIXTURES = ("Mixtral 8x7B", "Qwen3 30B-A3B")
MACHINES = (("DGX H100", "H100 SXM"), ("DGX A100", "A100 SXM 80GB"), ("DGX-2", "V100 SXM2 32GB"))
# Without the V, whose closed form is fitted to its executed twin and follows it within 3 %.
SCHEDULES = ("1f1b", "1f1b", "1f1b", "gpipe", "zero_bubble_h1")
RECOMPUTATIONS = ("none", "selective", "full", "alternate_products", "block")
KINDS = ("ring", "all_gather", "all_to_all")
SWITCHES = (
    *(f"overlap_{kind}_communication" for kind in (*PARALLELISMS, "offload")),
    "overlap_forward_tensor_communication",
)
OFFLOADS = ("optimizer_offload", "activation_offload", "weight_offload")
# Structures that are drawn, and configs of each; about three quarters of these keep all rules.
STRUCTURES, CONFIGS = 16, 180
# What a machine may have, beside what its rows say.
MACHINE = {
    "host_time_per_layer": (0.0, 0.2e-3, 0.8e-3), "host_time_per_step": (0.0, 10e-3), "bandwidth_per_network_card": (2e9, 25e9, 100e9),
    "inter_accelerator_bandwidth": (20e9, 150e9, 450e9), "host_link_bandwidth": (2e9, 25e9, 450e9),
    "host_memory_bandwidth": (40e9, 409.6e9), "inter_node_latency": (1e-6, 1e-5), "inter_accelerator_latency": (1e-6, 5e-6),
    "kernel_launch_time": (0.0, 2e-6, 1e-5), "overlap_slowdown_fraction": (0.0, 0.15, 0.5),
    "expert_exchange_processor_fraction": (0.0, 0.15, 0.4),
    "recomputation_stops_early": (0, 1), "tensor_chunk_overlap_fraction": (0.35, 1.0), "network_cards_share_host_link": (0, 1),
}  # fmt: skip


@dataclass(frozen=True)
class Drawn:
    """Configs of one structure: the scenario of the first, its plan of a step, and what each has of its own."""

    scenario: Scenario
    plan: Plan
    own: Mapping[str, Array]

    def steps(
        self, changes: Sequence[Mapping[str, Any]], names: Sequence[str] = ("step_time",), *pages: ModuleType
    ) -> tuple[Array, ...]:
        """Which configs keep all rules, and named results: a row for each change, a column for each config.

        `pages` have formulas of results that the book has not.
        """
        given, count = self.scenario.sources.given, len(next(iter(self.own.values())))
        changed = {name for change in changes for name in change}
        columns = {
            name: np.concatenate([self._changed(name, change, given, count) for change in changes])
            for name in {*self.own, *changed}
        }
        chosen = self.plan if set(names) <= set(self.plan.targets) else self._plan(names, pages)
        with np.errstate(all="ignore"):
            found = run(chosen, given, JointAxis(columns, worthwhile=0.0), keep=frozenset(chosen.targets))
        rules = [name for name in chosen.targets if name in self.scenario.catalogue.constraints]
        valid = np.logical_and.reduce([found.whole(name).reshape(-1) > 0 for name in rules])
        whole = (valid, *(found.whole(name).reshape(-1) for name in names))
        return tuple(each.reshape(len(changes), count) for each in whole)

    def _plan(self, names: Sequence[str], pages: tuple[ModuleType, ...]) -> Plan:
        """The plan of other results beside the rules."""
        known = catalogue(pages) if pages else self.scenario.catalogue
        return plan(known, (*names, *known.constraints), self.scenario.sources)

    def _changed(self, name: str, change: Mapping[str, Any], given: Mapping[str, Any], count: int) -> Array:
        """A column under a change, which is a value or a function of the value there was."""
        start = self.own[name] if name in self.own else np.full(count, float(given[name]))
        how = change.get(name, start)
        return np.broadcast_to(np.asarray(how(start) if callable(how) else how, dtype=np.float64), (count,))


def _mapping(random: Random, chunks: list[int], experts: bool) -> Values:
    """Degrees, micro-batches and switches."""
    p, data = random.choice([1, 1, 2, 4, 8]), random.choice([1, 2, 8])
    m = p * random.choice([1, 2, 4, 8])
    expert = (
        {"expert_parallel_degree": random.choice([1, 2, 4, 8]), "expert_tensor_parallel_degree": 1} if experts else {}
    )
    return {
        "tensor_parallel_degree": random.choice([1, 2, 4, 8, 16]), "context_parallel_degree": random.choice([1, 1, 2, 8]),
        "data_parallel_degree": data, "pipeline_parallel_degree": p, "zero_stage": random.choice([0, 1, 2, 3]),
        "sequence_parallel": random.random() < 0.5, "gradients_have_own_links": random.random() < 0.5,
        "number_of_microbatches_per_minibatch": m, "batch_size": m * data * random.choice([1, 2]), **expert,
        "virtual_pipeline_stages": random.choice(chunks) if p > 1 else 1,
        **{name: random.random() < 0.6 for name in SWITCHES},
    }  # fmt: skip


def _structure(random: Random) -> tuple[Values, Values, bool]:
    """What a plan depends on: rows, choices, and whether something may lie on the host."""
    (system, accelerator), mixture = random.choice(MACHINES), random.random() < 0.4
    recomputation = random.choice(RECOMPUTATIONS)
    block = {"number_of_recomputed_layers": 2} if recomputation == "block" else {}
    rows = {NETWORK: random.choice(MIXTURES if mixture else DENSE), SYSTEM: system, ACCELERATOR: accelerator}
    values = {
        "dropout": 0, "layers": 32, "context": 4096, "flash_attention": random.random() < 0.7, "tokens_to_train": "1 G",
        "pipeline_schedule": random.choice(SCHEDULES), "activation_recomputation": recomputation,
        "context_parallel_kind": random.choice(KINDS), "pipelined_weight_sharding": True, **block,
        **({"number_of_MoE_layers": 32} if mixture else {}),
    }  # fmt: skip
    return rows, values, mixture


@cache
def drawn_configs(seed: int, structures: int = STRUCTURES) -> tuple[Drawn, ...]:
    """Configs of several structures, always the same of a seed."""
    return tuple(_drawn(Random(f"{seed} {number}")) for number in range(structures))


def _drawn(random: Random) -> Drawn:
    rows, values, mixture = _structure(random)
    chunks = [1, 2, 4] if values["pipeline_schedule"] == "1f1b" else [1]
    offloads = random.random() < 0.5
    configs: list[Values] = []
    for _ in range(CONFIGS):
        config = _mapping(random, chunks, mixture) | {name: random.choice(each) for name, each in MACHINE.items()}
        config["host_waits_for_dispatch"] = len(configs) % 2
        configs.append(config | ({name: random.choice([0, 0.5, 1]) for name in OFFLOADS} if offloads else {}))
    scenario = read_scenario(sectioned(values | configs[0], rows))
    wanted = ("step_time", *scenario.catalogue.constraints)
    own = {name: np.array([float(config[name]) for config in configs]) for name in configs[0]}
    return Drawn(scenario, plan(scenario.catalogue, wanted, scenario.sources), own)
