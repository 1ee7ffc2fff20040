"""Drawn configs: networks, machines, mappings and switches at random, those of one structure evaluated in one go.

Half of the structures are networks whose layers are alike, the other half networks whose layers are lists of kinds.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from random import Random
from types import ModuleType
from typing import Any

import numpy as np

from amped.configuring.scenario import Scenario, read_scenario
from amped.engine.axes import JointAxis
from amped.engine.evaluate import Array, run
from amped.engine.resolve import Plan, plan
from amped.pipeline_layouts.laying_out import Effort, laid_out
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
LAYERS = 32
# What layers are lists of, beside dense layers and mixtures.
LINEAR_KINDS = ("gated_delta_net", "kimi_delta_attention", "mamba2", "lightning_attention")
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
        "dropout": 0, "layers": LAYERS, "context": 4096, "flash_attention": random.random() < 0.7, "tokens_to_train": "1 G",
        "pipeline_schedule": random.choice(SCHEDULES), "activation_recomputation": recomputation,
        "context_parallel_kind": random.choice(KINDS), "pipelined_weight_sharding": True, **block,
        **({"number_of_MoE_layers": LAYERS} if mixture else {}),
    }  # fmt: skip
    return rows, values, mixture


def _linear_attention(random: Random, kind: str) -> Values:
    """Heads, widths and chunks of linear attention of some kind."""
    heads = random.choice([16, 32])
    return {
        "linear_attention_kind": kind, "linear_key_heads": heads, "linear_value_heads": heads * random.choice([1, 2]),
        "linear_key_head_dimension": 128, "linear_value_head_dimension": random.choice([64, 128]),
        "linear_chunk_tokens": random.choice([64, 128]), "linear_convolution_width": 0 if kind == "lightning_attention" else 4,
    }  # fmt: skip


def _chosen_keys(random: Random) -> Values:
    """Attention whose keys an indexer chooses, or attention in a window; or neither: a window as long as the context."""
    indexer = {
        "attention_kind": "multi_latent", "key_value_latent_dimension": 512, "query_latent_dimension": random.choice([0, 1536]), "rotary_head_dimension": 64,
        "head_dimension": 192, "value_head_dimension": 128, "absorbed_latent_attention": random.random() < 0.5,
        "indexer_heads": random.choice([8, 64]), "indexed_keys": random.choice([512, 2048]),
        "number_of_indexer_layers": random.choice([8, 16]), "indexer_loss": random.choice(["none", "chosen_keys", "all_keys"]),
    }  # fmt: skip
    window = {"attention_window": random.choice([128, 1024]), "number_of_windowed_layers": random.choice([4, 8])}
    return random.choice([window | {"attention_window": 4096}, indexer, window])


def _marks(random: Random) -> str:
    """A pattern of layers, of which each kind has some."""
    marks = [0, 1, *random.choices([0, 1], weights=[1, random.choice([1, 3])], k=LAYERS - 2)]
    random.shuffle(marks)
    return ",".join(map(str, marks))


def _list_of_kinds(random: Random, place: int, mixture: bool) -> Values:
    """A list of layers: of linear attention and attention, of dense layers and mixtures, of both, or of single blocks.

    Args:
        place: the number of the structure, from which all kinds are drawn in turn.
        mixture: whether the network has experts.
    """
    kind, shape = LINEAR_KINDS[place % len(LINEAR_KINDS)], place // len(LINEAR_KINDS) % 3
    keys = {**_chosen_keys(random), "attention_output_gate": random.random() < 0.5}
    if mixture and shape == 2:
        return keys | {
            "mixture_layer_pattern": _marks(random),
            "shared_expert_gate": True,
            "number_of_shared_experts": 1,
        }
    if shape == 1:
        blocks = [
            *"MMMM***",
            *("EE--" if mixture else "----"),
            *random.choices("M*E" if mixture else "M*-", k=LAYERS - 11),
        ]
        random.shuffle(blocks)
        return keys | _linear_attention(random, kind) | {"single_block_pattern": "".join(blocks)}
    both = {"mixture_layer_pattern": _marks(random)} if mixture else {}
    return keys | _linear_attention(random, kind) | {"linear_layer_pattern": _marks(random)} | both


@cache
def drawn_configs(seed: int, structures: int = STRUCTURES) -> tuple[Drawn, ...]:
    """Configs of several structures whose layers are alike, always the same of a seed."""
    return tuple(_drawn(Random(f"{seed} {number}")) for number in range(structures))


@cache
def drawn_lists(seed: int, structures: int = STRUCTURES) -> tuple[Drawn, ...]:
    """Configs of several structures whose layers are lists of kinds, always the same of a seed."""
    return tuple(_drawn(Random(f"{seed} list {number}"), place=number) for number in range(structures))


def _drawn(random: Random, place: int | None = None) -> Drawn:
    """Configs of one structure; with a `place`, of one whose layers are a list of kinds on the stages of one pipeline."""
    rows, values, mixture = _structure(random)
    chunks = [1, 2, 4] if values["pipeline_schedule"] == "1f1b" else [1]
    offloads = random.random() < 0.5
    configs: list[Values] = []
    for _ in range(CONFIGS):
        config = _mapping(random, chunks, mixture) | {name: random.choice(each) for name, each in MACHINE.items()}
        config["host_waits_for_dispatch"] = len(configs) % 2
        configs.append(config | ({name: random.choice([0, 0.5, 1]) for name in OFFLOADS} if offloads else {}))
    if place is not None:
        values |= _list_of_kinds(random, place, mixture)
        least = 2 if values["pipeline_schedule"] == "zero_bubble_h1" else 1
        configs = [config | _one_pipeline(config, configs[0], least) for config in configs]
    scenario = read_scenario(sectioned(values | configs[0], rows))
    if place is not None:
        scenario = replace(scenario, sources=laid_out(scenario.catalogue, scenario.sources, Effort.BALANCED))
    wanted = ("step_time", *scenario.catalogue.constraints)
    own = {name: np.array([float(config[name]) for config in configs]) for name in configs[0]}
    return Drawn(scenario, plan(scenario.catalogue, wanted, scenario.sources), own)


def _one_pipeline(config: Values, first: Values, least: int) -> Values:
    """The stages and chunks of the first config, with as many micro-batches for each stage as the config has.

    Args:
        least: the fewest stages.
    """
    microbatches, stages = config["number_of_microbatches_per_minibatch"], max(first["pipeline_parallel_degree"], least)
    each, size = microbatches // config["pipeline_parallel_degree"], config["batch_size"] // microbatches
    return {
        "pipeline_parallel_degree": stages, "virtual_pipeline_stages": first["virtual_pipeline_stages"],
        "number_of_microbatches_per_minibatch": stages * each, "batch_size": stages * each * size,
    }  # fmt: skip
