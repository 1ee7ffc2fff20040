"""What the tool of arXiv 2410.00273 (TPE) computed, and amped set up as the tool is."""

import json
from collections.abc import Callable, Container, Mapping
from functools import cache
from typing import Any, TypeVar

import pytest

import amped
from amped.theory.links.electrical import RING, TIMES
from amped.theory.nouns.link_records import Link, Links
from amped.theory.nouns.records import Collective, Group
from tests.helpers.formulas import page, sectioned
from tests.helpers.places import DATA

Values = dict[str, Any]
T = TypeVar("T")
CLOSE = 5e-3
READ = json.loads((DATA / "tpe_goldens.json").read_text("utf-8"))
SYSTEMS, CONFIGURATIONS = READ["systems"], READ["configurations"]
SYSTEMS |= {"A100-NVS64": SYSTEMS["A100-NVS8"] | {"nvlink_size": 64}}
# Those on a grid: SUMMA, and rows of weights with columns of tokens.
GRIDS = json.loads((DATA / "tpe_grid_goldens.json").read_text("utf-8"))["configurations"]
EVERY = CONFIGURATIONS | GRIDS
KINDS = {"allgather": "all_gather", "reducescatter": "reduce_scatter", "allreduce": "all_reduce",
         "broadcast": "broadcast", "reduce": "reduce", "p2p": "send_receive"}  # fmt: skip
# The tool's products, and their names here.
LINEAR = {"qkv": "query_key_value", "vproj": "attention_output", "fc1": "feedforward_up", "fc2": "feedforward_down"}
PRODUCTS = LINEAR | {"logits": "attention_scores", "attend": "attention_values"}
FUSED = {"fusedla": "fused_attention"}
PASSES = {"fwd": ("forward",), "bwd": ("input_gradient", "weight_gradient")}
# The message of each operator of the tool, here. A norm gathers what the next product reads.
SENT_FORWARD = {
    "ln1": "attention_input",
    "vproj": "attention_output",
    "ln2": "feedforward_input",
    "fc2": "feedforward_down",
}
SENT_BACKWARD = {
    "qkv": "attention_input",
    "ln2": "attention_output",
    "fc1": "feedforward_input",
    "ln1": "feedforward_down",
}
MIRRORED = {"all_gather": "reduce_scatter", "reduce_scatter": "all_gather"}
# Layers only: no embedding, no head, no loss, no optimizer step; no bias of queries, keys and values, all others.
NETWORK = {
    "vocabulary_size": 0, "final_norm": False, "tied_embeddings": True, "causal": False, "dropout": 0.1,
    "query_key_value_bias": False, "attention_output_bias": True, "mlp_bias": True, "norms_per_layer": 2,
    "norm_vectors": 2, "weight_precision": 16, "activation_precision": 16, "gradient_precision": 16,
    "optimizer_state_precision": 32, "matrix_precision": "fp16", "number_of_steps": 1,
}  # fmt: skip
# The tool shares out optimizer states only, hides data-parallel communication only, and knows rings only.
MAPPING = {
    "sequence_parallel": True, "zero_stage": 1, "collective_algorithm": "ring", "overlap_data_communication": True,
    "overlap_tensor_communication": False, "overlap_pipeline_communication": False,
    "gradients_have_own_links": False,  # its gradients travel beside computation alone
}  # fmt: skip

# amped gathers inputs once more backward; the tool keeps them, but for panels.
KEEPS_WHAT_IT_GATHERED = page("""
@quantity("1")
def gathered_gradient_layouts(gathered_entry_fraction):
    'The layouts of gradients that a backward pass gathers beside what it reduces: none. Source: the tool.'
    return 0.0 * gathered_entry_fraction
""")


def inputs(configuration: str) -> Values:
    return EVERY[configuration]["inputs"]


def totals(configuration: str) -> Values:
    return EVERY[configuration]["totals"]


def operators(configuration: str) -> dict[str, Values]:
    """The tool's rows by name: one layer, one micro-batch, one accelerator."""
    rows = EVERY[configuration]["operators"]
    return {row[0]: dict(zip(READ["operator_columns"], row, strict=True)) for row in rows}


def messages() -> list[Values]:
    """The tool's 594 collectives."""
    return [dict(zip(READ["comm_primitive_columns"], row, strict=True)) for row in READ["comm_primitive"]]


def machine(name: str) -> Values:
    """A system of the tool, in amped's names: a card for each accelerator, one fast domain a node."""
    tool = SYSTEMS[name]
    return {
        "number_of_accelerators_per_node": tool["nvlink_size"],
        "scale_up_domain_size": tool["nvlink_size"],
        "inter_accelerator_bandwidth": tool["nvlink_bandwidth"] * 1e9,
        "inter_accelerator_efficiency": tool["nvlink_eff"],
        "inter_accelerator_latency": tool["nvlink_latency"],
        "number_of_network_cards_per_node": tool["nvlink_size"] * tool["nic_factor"],
        "bandwidth_per_network_card": tool["ib_bandwidth"] * 1e9,
        "inter_node_efficiency": tool["ib_eff"],
        "inter_node_latency": tool["ib_latency"],
        "fp16_peak_flop_rate": tool["matrix_flops_fp16"] * 1e12,
        "vector_flop_rate": tool["vector_flops_fp16"] * 1e12,
        "memory_bandwidth": tool["hbm_bandwidth"] * 1e9,
        "memory_capacity": tool["hbm_capacity"] * 1e9,
        "attention_head_ramp": 0,  # its attention is as fast whatever the width of a head
        "attention_backward_head_ramp": 0,
    }


def grid(tool: Values) -> Values:
    """Rows and columns of a grid; products that hide panels, and scores in panels for one of its modules."""
    if "strategy" not in tool:
        return {}
    degrees, inside = tool["parallel"], tool["gpus_in_fast_domain"]
    panels = {"summa_panels": degrees["nb"], "overlap_tensor_communication": True} if "nb" in degrees else {}
    scores = {"grid_attention": "summa", "flash_attention": False} if tool["attention_module"] == "sa_2d" else {}
    return (
        panels
        | scores
        | {
            "tensor_parallel_strategy": tool["strategy"],
            "tensor_parallel_rows": degrees["tp1"],
            "tensor_parallel_columns": degrees["tp2"],
            "intra_node_tensor_parallel_rows": inside["nv_tp1"],
            "intra_node_tensor_parallel_degree": inside["nv_tp1"] * inside["nv_tp2"],
        }
    )


def mapping(tool: Values) -> Values:
    """Degrees with their parts inside the fast domain, and the micro-batch."""
    degrees, inside = tool["parallel"], tool["gpus_in_fast_domain"]
    return {
        "tensor_parallel_degree": degrees["tp"],
        "intra_node_tensor_parallel_degree": inside.get("nv_tp"),
        "data_parallel_degree": degrees["dp"],
        "intra_node_data_parallel_degree": inside["nv_dp"],
        "pipeline_parallel_degree": degrees["pp"],
        "intra_node_pipeline_parallel_degree": inside["nv_pp"],
        "number_of_accelerators": tool["gpus"],
        "microbatch_size": degrees["mbs"],
        "batch_size": tool["global_batch_size"],
    } | grid(tool)


@cache
def estimate(configuration: str, optimizer: str = "none") -> amped.Estimate:
    tool = inputs(configuration)
    model = tool["model"]
    network = {
        "layers": model["depth"],
        "dimensionality": model["e"],
        "attention_heads": model["h"],
        "feedforward_dimension": model["f"],
        "context": model["l"],
        "flash_attention": tool["flash_attention"],
        "optimizer": optimizer,
    }
    values = NETWORK | MAPPING | network | machine(tool["system"]) | mapping(tool)
    formulas = None if "nb" in tool["parallel"] else KEEPS_WHAT_IT_GATHERED  # panels are sent anew in any case
    return amped.estimate(sectioned(values), kernel_efficiencies="TPE constants", formulas=formulas)


def records(configuration: str, name: str) -> list[Any]:
    """Records that are called at all, with floats."""
    return [record for record in estimate(configuration).results.records(name) if record.count > 0]


def links(name: str) -> Links:
    """The networks of a system without ramps and overhead, and rings alone."""
    tool = SYSTEMS[name]
    inside = Link("inside", tool["nvlink_bandwidth"] * 1e9 * tool["nvlink_eff"], tool["nvlink_latency"])
    across = Link("across", tool["ib_bandwidth"] * 1e9 * tool["ib_eff"] * tool["nic_factor"], tool["ib_latency"])
    return Links(name, TIMES, (RING,), overhead=0.0, inside=inside, across=across, tree=1.0, switch=1.0)


def time_of(golden: Values, kind: str | None = None) -> float:
    """What amped says a message of the tool takes; `kind`: had it been of another kind."""
    inside = min(golden["gpus_in_fast_domain"], golden["gpus"])
    group = Group("", float(inside), golden["gpus"] / inside)
    sent = Collective("", kind or KINDS[golden["type"]], volume=float(golden["bytes"]), group=group, count=1.0)
    return float(links(golden["system"]).time(sent))


def by_operator(
    configuration: str, names: Container[str], value: Callable[[Values, str], T]
) -> dict[tuple[str, str], T]:
    """The tool's value of each of its operators of these names, in each pass."""
    rows = {name: row for name, row in operators(configuration).items() if name in names}
    return {(name, a_pass): value(row, a_pass) for name, row in rows.items() for a_pass in PASSES}


def summed(
    configuration: str, names: Mapping[str, str], kind: str, value: Callable[[Any], float]
) -> dict[tuple[str, str], float]:
    """The same, of amped's records of that kind."""
    sums = {}
    for tool_name, name in names.items():
        for a_pass, phases in PASSES.items():
            found = [r for r in records(configuration, kind) if r.name == name and r.phase in phases]
            if found:
                sums[tool_name, a_pass] = sum(value(r) for r in found)
    return sums


def pseudo_flops(configuration: str, a_pass: str) -> float:
    """Softmax and dropout that the tool adds to a fused attention, as if they ran at the rate of the products.

    Forward 3 and 1 operations a score; backward 4 and 1, and the forward ones again. A row's first sum is none.
    """
    tool = inputs(configuration)
    system, model = SYSTEMS[tool["system"]], tool["model"]
    rows = tool["parallel"]["mbs"] * model["h"] // tool["parallel"]["tp"] * model["l"]
    operations = {"fwd": 4 * model["l"] - 1, "bwd": 9 * model["l"] - 2}[a_pass]
    return rows * operations * system["matrix_flops_fp16"] / system["vector_flops_fp16"]


def sent(configuration: str, a_pass: str) -> Values:
    """What the operators of a layer send in the tool: type, bytes, accelerators, those in the fast domain."""
    rows = operators(configuration)
    return {name: r[f"comm_{a_pass}"] for name, r in rows.items() if r[f"comm_{a_pass}"] and "comms" not in name}


def message(collective: Collective, kind: str | None = None) -> list[Any]:
    """A collective of amped's as a message of the tool."""
    group = [collective.intra * collective.inter, collective.intra]
    return [kind or collective.kind, pytest.approx(collective.volume, rel=CLOSE), *group]


def rooflines(
    configuration: str, names: Container[str], without: Callable[[str, str], float] = lambda *_: 0
) -> dict[tuple[str, str], float]:
    """The longer of a row's traffic and its work, without some of its flops and without the launch."""
    e = estimate(configuration)
    overhead, bandwidth, rate = e["kernel_overhead_time"], e["memory_bandwidth"], e["sustained_matrix_flop_rate"]

    def longer(row: Values, a_pass: str) -> float:
        work = row[f"t_{a_pass}_comp_s"] - overhead - without(configuration, a_pass) / rate
        return max(work, row[f"mem_access_{a_pass}_bytes"] / bandwidth)

    return by_operator(configuration, names, longer)
