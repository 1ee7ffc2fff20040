"""From columns and notes to amped's parameters: what each says in canonical names, and what was assumed."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping
from typing import Any

from amped.base.errors import AmpedError, Problem, quoted
from amped.tables.table_files import ABOUT
from amped.tables.tables import Row, Tables
from amped.validation.columns import COLUMNS as KINDS
from amped.validation.columns import FLAG, TableRow
from amped.validation.machines import MACHINE, take_machine
from amped.validation.notes import Reading
from amped.validation.similar_networks import known_alike
from amped.validation.stacks import UNKNOWN, shape_of, stack_of
from amped.validation.translated import Translation
from amped.validation.uneven_layers import splits

# Columns that are one parameter each.
DIRECT = {
    "layers": "layers", "hidden_size": "dimensionality", "attention_heads": "attention_heads",
    "kv_heads": "key_value_heads", "vocab_size": "vocabulary_size", "seq_len": "context", "gated_mlp": "gated_mlp",
    "num_experts": "number_of_experts", "experts_topk": "experts_per_token", "tied_embeddings": "tied_embeddings",
    "gpus": "number_of_accelerators", "gpus_per_node": "number_of_accelerators_per_node", "dp": "data_parallel_degree",
    "tp": "tensor_parallel_degree", "pp": "pipeline_parallel_degree", "cp": "context_parallel_degree",
    "ep": "expert_parallel_degree", "virtual_pipeline_stages": "virtual_pipeline_stages",
    "sequence_parallel": "sequence_parallel", "zero_stage": "zero_stage", "flash_attention": "flash_attention",
    "micro_batch": "microbatch_size", "global_batch": "batch_size", "precision": "matrix_precision",
    "activation_recompute": "activation_recomputation", "ffn_hidden_size": "feedforward_dimension",
}  # fmt: skip
# Columns that become something else: which parameters, or what they are.
OTHERWISE = {
    "moe_layer_freq": "number_of_MoE_layers", "accelerator": "the accelerator's row",
    "intra_node_network": "inter_accelerator_bandwidth", "inter_node_network": "inter_node_bandwidth",
    "framework": "the stack whose defaults hold", "notes": "facts", "audit": "facts", "row_kind": "kind of row",
    "measured_step_time_s": "measured", "measured_tokens_per_s_per_gpu": "measured",
    "measured_model_tflops_per_gpu": "measured", "measured_peak_memory_GB": "measured",
}  # fmt: skip
PROVENANCE = {
    "id": "names the row", "source": "who measured (and the era of a framework)", "source_ref": "where it is printed",
    "model_name": "nothing may depend on it", "confidence": "how far the inputs are known",
    "measured_mfu_pct": "derived from the time, by a convention of the source",
    "measured_hfu_pct": "derived from the time, by a convention of the source",
}  # fmt: skip
# What every framework takes for a blank column, and columns of a stack that are no parameter of a config.
BLANK = {"virtual_pipeline_stages": 1, "micro_batch": 1, "ep": 1}
SAID_OF_STACKS = (
    "network_family", "selective_recomputation", "vocabulary_padding", "offers", "bf16_gradient_precision",
    "local_batch_cut_into",
)  # fmt: skip
# How well a stack does what it does: its row says it, and nothing is assumed of the measurement.
HOW_WELL = (
    "attention_kernel", "attention_dropout_fraction", "context_parallel_attention_fraction", "streaming_traffic_factor", "weight_gradient_accumulation",
    "host_time_per_layer", "host_time_per_step", "allocator_reserve_fraction", "cross_entropy_copies",
    "fused_cross_entropy", "deduplicated_dispatch", "recomputation_stops_early",
    "prefetched_sharding_fraction", "expert_bias_addition", "expert_weighting",
)  # fmt: skip
RECOMPUTATION = {"none": "none", "full": "full", "selective": "selective"}
# Recipes of fp8 (mxfp8, fp8-cs, ...) and fp4 scale differently and multiply alike.
NARROW = {"fp8": re.compile(r"fp8|e4m3", re.IGNORECASE), "fp4": re.compile(r"fp4|e2m1", re.IGNORECASE)}
FULL_PRECISION = ("fp32", "tf32")
# What follows from the config, and is checked rather than given.
CHECKED = ("number_of_parameters", "expert_data_degree")
# What is said of experts, which holds for no dense network.
OF_EXPERTS = (
    "expert_imbalance_factor", "expert_capacity_factor", "expert_tensor_parallel_degree", "expert_assignment",
)  # fmt: skip
# What a single layer is without: an optimizer, what stands around the layers, other replicas; and the time to grow hot.
ALONE = {"optimizer": "none", "vocabulary_size": 0, "final_norm": False, "position_table": 0, "host_time_per_step": 0,
         "training_clock_fraction": 1, "gradient_communication_time": 0, "weight_communication_time": 0}  # fmt: skip


def translated(row: TableRow, reading: Reading, layer_alone: bool, tables: Tables) -> Translation:
    """Everything that a row says, in amped's names.

    Raises:
        AmpedError: for what cannot be understood.
    """
    compiled = bool(reading.software.get("compiled"))
    stack = stack_of(row.text("framework"), f"{row.text('source')} {row.text('source_ref')}", tables, compiled)
    result = Translation(software=stack.name, offers=tuple(stack.columns.get("offers", ())))
    _take_defaults(row, stack, result)
    _take_network_of_its_shape(row, tables, result)
    _take_columns(row, stack, result)
    if layer_alone:
        result.values |= ALONE
    _take_facts(row, reading, result)
    for name in reading.facts:
        result.assumed.pop(name, None)
    if not layer_alone:
        _pad_vocabulary(stack, result)
        _take_pipeline(row, stack, result)
    take_machine(row, tables, result)
    timed = {"measured_step_time_s", "measured_tokens_per_s_per_gpu"} & row.numbers.keys()
    if not timed and "attention_flop_convention" not in reading.facts:
        result.assume("attention_flop_convention", "full", "the source does not say; amped's own")
    for name in list(result.assumed):
        if not (name in result.values or name in MACHINE):
            del result.assumed[name]
    return result


def _take_defaults(row: TableRow, stack: Row, result: Translation) -> None:
    """What the framework does unless told otherwise, for blank columns too."""
    whose = "default of " + ("an unknown framework" if stack.name == UNKNOWN else stack.name)
    own = {name: value for name, value in stack.columns.items() if name not in (*ABOUT, *HOW_WELL)}
    own |= {DIRECT[column]: value for column, value in BLANK.items() if column != "ep" or "num_experts" in row.texts}
    if row.text("precision") == "bf16" and "bf16_gradient_precision" in own:
        own["gradient_precision"] = own["bf16_gradient_precision"]
    given = {DIRECT[column] for column in row.texts if column in DIRECT}
    for name, value in own.items():
        if name not in given and name not in SAID_OF_STACKS:
            result.assume(name, value, whose)
    for name, value in shape_of(stack, bool(row.numbers.get("gated_mlp")), row.numbers["seq_len"]).items():
        result.assume(name, value, whose)


def _take_network_of_its_shape(row: TableRow, tables: Tables, result: Translation) -> None:
    """What no column asks for, as networks of that very shape have it."""
    names, facts = known_alike(row, tables)
    for name, value in facts.items():
        if name not in result.values or result.values[name] != value:
            result.assume(name, value, f"networks of this shape: {names}")


def _take_columns(row: TableRow, stack: Row, result: Translation) -> None:
    for column, cell in row.texts.items():
        if column in DIRECT:
            result.values[DIRECT[column]] = _cell(column, cell, row.numbers.get(column), stack)
    if row.numbers.get("num_experts", 1) > 1:
        result.values["number_of_MoE_layers"] = math.floor(row.numbers["layers"] / row.numbers.get("moe_layer_freq", 1))
        if "ffn_hidden_size" in row.numbers:
            result.values["expert_feedforward_dimension"] = int(row.numbers["ffn_hidden_size"])
    if row.text("precision") and row.text("precision") not in FULL_PRECISION:
        for name in ("weight_precision", "activation_precision"):
            result.values[name] = 16


def _cell(column: str, cell: str, number: float | None, stack: Row) -> Any:
    """A cell as a config has it."""
    if column == "activation_recompute":
        mode = RECOMPUTATION.get(cell.casefold())
        if mode is None:
            raise AmpedError(Problem(f"{quoted(cell)} is no kind of recomputation", f"column '{column}'",
                                     f"it is one of {', '.join(RECOMPUTATION)}; say the rest in notes"))  # fmt: skip
        return stack.columns.get("selective_recomputation", mode) if mode == "selective" else mode
    if column == "precision":
        return next((name for name, written in NARROW.items() if written.search(cell)), cell.casefold())
    if number is None:
        return cell.casefold()
    return bool(number) if KINDS[column] == FLAG else int(number)


def _take_facts(row: TableRow, reading: Reading, result: Translation) -> None:
    """What notes and audit say, some of it relative to the row."""
    values, relative = result.values, _relative(row, result.values)
    for name, value in reading.facts.items():
        if name in CHECKED:
            result.expected[name] = float(value)
        elif name in relative:
            values.update(relative[name](value))
        elif (
            name == "microbatch_size" and "micro_batch" in row.numbers and values.get("pipeline_parallel_degree", 1) > 1
        ):
            continue  # what a pipeline gets at once
        else:
            values[name] = int(value) if isinstance(value, float) and value.is_integer() else value
    _take_consequences(values)


def _take_consequences(values: dict[str, Any]) -> None:
    """What follows from facts, and facts that are about nothing in this row."""
    if values.get("pipeline_parallel_degree", 1) > 1:  # a pipeline cuts local batches into the row's micro-batches
        values.pop("number_of_microbatches_per_minibatch", None)
    if "unrotated_head_dimension" in values:
        values["head_dimension"] = values.pop("unrotated_head_dimension") + values.get("rotary_head_dimension", 0)
    if "number_of_experts" not in values:
        for name in OF_EXPERTS:
            values.pop(name, None)
    if values.get("number_of_attention_layers") == 0:
        values.update({"norms_per_layer": 0})
        values.setdefault("attention_heads", values.get("tensor_parallel_degree", 1))
    if values.get("norm_position") == "post":  # positions are added, with words, before the first layer
        values.setdefault("positions", "learned")
    if values.get("context_parallel_degree", 1) == 1:
        for name in ("context_parallel_kind", "overlap_context_communication"):
            values.pop(name, None)


def _relative(row: TableRow, values: Mapping[str, Any]) -> dict[str, Callable[[Any], dict[str, Any]]]:
    """Facts that are told as shares, or as something else that the parameter follows from."""
    layers, stages = row.numbers["layers"], row.numbers.get("pp", 1.0)
    return {
        "attention_precision": lambda _: {},  # what amped assumes of fp8
        "recomputed_layers_fraction": lambda v: {"number_of_recomputed_layers": math.floor(v * layers / stages)},
        "windowed_layer_fraction": lambda v: {"number_of_windowed_layers": math.floor(v * layers)},
        "number_of_dense_layers": lambda v: {"number_of_MoE_layers": int(layers - v)},
        "expert_tensor_parallel_degree": lambda v: {
            "expert_tensor_parallel_degree": values.get("tensor_parallel_degree", 1) if v == "tp" else int(v)
        },
    }


def _take_pipeline(row: TableRow, stack: Row, result: Translation) -> None:
    """How network and batch are cut for stages, and what ZeRO comes to in a pipeline, which adds gradients up first."""
    _cut_local_batch(row, stack, result)
    for name, value, why in splits(result.values):
        result.assume(name, value, why)
    piped = result.values.get("pipeline_parallel_degree", 1) > 1
    if piped and result.values.get("zero_stage", 0) > 1:
        result.assume("zero_stage", 1, "in a pipeline weights stay gathered and gradients are added up first")


def _cut_local_batch(row: TableRow, stack: Row, result: Translation) -> None:
    """Micro-batches where a row says what a replica gets at once, or nothing, and its framework cuts that for pipelines."""
    stages, parts = result.values.get("pipeline_parallel_degree", 1), stack.columns.get("local_batch_cut_into")
    local = row.numbers["global_batch"] / row.numbers.get("dp", math.inf)
    if stages > 1 and parts and row.numbers.get("micro_batch", local) == local >= stages:
        size = int(local // stages) if parts == "stages" else 1
        result.settle(
            "microbatch_size", size, f"{stack.name} cuts a local batch of {local:.0f} into as many as {parts}"
        )


def _pad_vocabulary(stack: Row, result: Translation) -> None:
    """The vocabulary as the framework holds it."""
    written, unit = result.values.get("vocabulary_size", 0), stack.columns.get("vocabulary_padding", 0)
    if unit and written:
        whole = unit * result.values.get("tensor_parallel_degree", 1)
        padded = math.ceil(written / whole) * whole
        if padded != written:
            result.assume("vocabulary_size", padded, f"{stack.name} pads {written} to a multiple of {whole}")
