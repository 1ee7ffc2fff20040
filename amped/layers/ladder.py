"""One layer alone: what makes a rung of the ladder from plain torch to fp8, and how long each rung takes."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from amped.configuring.scenario import read_scenario
from amped.estimation.estimation import Estimation, estimated
from amped.tables.table_files import LookupTables
from amped.theory.nouns.parallelisms import PARALLELISMS

ALONE = {
    **{f"{kind}_parallel_degree": 1 for kind in PARALLELISMS},
    "number_of_accelerators": 1,
    "number_of_accelerators_per_node": 1,
    "activation_recomputation": "none",
}
# Of a layer alone: no optimizer, no ends. All its products have biases, as those of the published layers have. Its passes follow one
# another, so that the clock is that of training.
LAYER = {**ALONE, **dict.fromkeys(("query_key_value_bias", "attention_output_bias", "mlp_bias"), True), "layers": 1, "vocabulary_size": 0,
         "optimizer": "none", "final_norm": False, "position_table": 0, "host_time_per_step": 0,
         **dict.fromkeys(("weight_precision", "activation_precision", "gradient_precision"), 16)}  # fmt: skip
# What makes a rung of the ladder: the software, and whether attention is fused. A compiled layer moves what fused kernels move.
COMPILED = {"software": "PyTorch", "flash_attention": True, "streaming_traffic_factor": 1, "host_time_per_layer": 0}
RUNGS: Mapping[str, Mapping[str, Any]] = {
    "eager": {"software": "PyTorch", "flash_attention": False},
    "functional": {"software": "PyTorch", "flash_attention": False},
    "sdpa": {"software": "PyTorch", "flash_attention": True},
    "compiled": COMPILED,
    "graph": {**COMPILED, "cuda_graph_scope": "layer"},
    "fp8_dynamic": {**COMPILED, "matrix_precision": "fp8"},
    "fp8_delayed": {**COMPILED, "matrix_precision": "fp8"},
    "fused_softmax": {"software": "Megatron-Core layers", "flash_attention": False},
    "fp8_explicit": {"software": "Megatron-Core layers", "flash_attention": False, "matrix_precision": "fp8"},
}


def layer_time(accelerator: str, rung: str, lookup_tables: LookupTables = None, **sizes: Any) -> float:
    """The seconds of the forward and backward pass of one layer, with the software and attention of a rung of RUNGS."""
    return estimated_alone(accelerator, lookup_tables, {**LAYER, **sizes, **RUNGS[rung]})["step_time"]


def estimated_alone(accelerator: str, lookup_tables: LookupTables, settings: Mapping[str, Any]) -> Estimation:
    """The estimate of a run of the settings on an accelerator; the batch is one micro-batch unless the settings say otherwise."""
    size = settings["microbatch_size"]
    overrides = {"accelerator": accelerator, "batch_size": size, "samples": size, **settings}
    return estimated(read_scenario({}, overrides, lookup_tables))
