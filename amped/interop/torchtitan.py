"""torchtitan: TOML files and saved configs in; a Python recipe of 0.3.0, or with the names of main, out."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import replace
from functools import partial
from typing import Any

from amped.estimation.estimation import Estimation
from amped.interop.fields import table
from amped.interop.outgoing import Outgoing, Rule, heading, of_tower, run_line, written
from amped.interop.records import Imported, Reading
from amped.interop.sections import flat, parse_toml, read_sections
from amped.theory.language.quantity import MAPPING, NETWORK

FORM, SOFTWARE, COMPILED = "torchtitan", "torchtitan", "torchtitan compiled"
VERSION, MAIN = "torchtitan 0.3.0", "torchtitan main of August 2026"
P, T = "parallelism.", "training."
# The name of a recipe: of its function and its file.
RECIPE = "amped_recipe"
SCHEDULES = {"1f1b": "1F1B", "gpipe": "GPipe", "zero_bubble_v": "ZBVZeroBubble", "dualpipe_v": "DualPipeV"}
INTERLEAVED, DEFAULT_CHUNKS = "Interleaved1F1B", 2
# What stands for the rest of the machine, and for a batch of all replicas at once.
REST = -1


def read_sharding(reading: Reading) -> dict[str, Any]:
    """Reads the ZeRO stage, the number of accelerators and the sharding degree from the two degrees of data parallelism.

    FSDP2 shards over the shard degree; the replicate degree is the number of copies. Weights are freed after the forward pass
    (ZeRO 3) unless the file says "never"; by default they are not freed in a pipeline (ZeRO 2). A shard degree of -1 takes all
    accelerators that the other degrees leave, so that their number stays open.
    """
    copies = reading.number(f"{P}data_parallel_replicate_degree", "sharding_degree", 1, least=1)
    shard_degree = _count_or_rest(reading, f"{P}data_parallel_shard_degree", "zero_stage")
    reshard = reading.word(f"{P}fsdp_reshard_after_forward", "zero_stage", "default")
    has_stages = reading.degree("pipeline") > 1
    stage = 0 if shard_degree == 1 else 2 if reshard == "never" or (reshard == "default" and has_stages) else 3
    if shard_degree == REST:
        reading.defaulted(
            f"{P}data_parallel_shard_degree", "-1: all accelerators that the other degrees leave; give --gpus"
        )
        return {"zero_stage": stage}
    return {
        "zero_stage": stage,
        "number_of_accelerators": copies * shard_degree * reading.accelerators_of_a_replica,
        "sharding_degree": shard_degree if copies > 1 and stage else None,
    }


def write_sharding(out: Outgoing) -> None:
    """Writes the shard and the replicate degree, and whether weights are freed after passes. Reports ZeRO 1 as lost."""
    stage, replicas = out["zero_stage"], out["data_parallel_degree"]
    shard_degree = (int(out["sharding_degree"]) if "sharding_degree" in out.given else replicas) if stage else 1
    out.write("copies of the shards", P, data_parallel_replicate_degree=replicas // shard_degree)
    out.write("replicas that share out their states", P, data_parallel_shard_degree=shard_degree)
    if stage and shard_degree > 1:
        out.write(f"ZeRO {stage}: weights are {'freed after' if stage == 3 else 'kept between'} passes",
                  P, fsdp_reshard_after_forward="always" if stage == 3 else "never")  # fmt: skip
    if stage == 1:
        out.lose("zero_stage", "FSDP2 shards gradients too: ZeRO 2 is written")
    if stage and shard_degree == 1:
        out.idle.add("zero_stage")
    if stage == 0 or shard_degree == replicas:
        out.idle.add("sharding_degree")


def read_batch(reading: Reading) -> dict[str, Any]:
    """Reads the sequences of a micro-batch and of a step.

    Without a pipeline, the local batch is a micro-batch. A global batch of -1 is one local batch of each replica.
    """
    local = reading.number(f"{T}local_batch_size", "microbatch_size", 8, least=1)
    batch = _count_or_rest(reading, f"{T}global_batch_size", "batch_size")
    microbatch = reading.number(MICRO, "microbatch_size", 1, least=1)
    has_stages = reading.degree("pipeline") > 1
    if batch == REST:
        reading.defaulted(f"{T}global_batch_size", f"{local} sequences of each replica, all at once; give --gbs")
    return {"microbatch_size": microbatch if has_stages else local, "batch_size": None if batch == REST else batch}


def write_batch(out: Outgoing) -> None:
    """Writes the sequences of a step, of a replica at once, and in a pipeline of a micro-batch.

    In a pipeline a replica runs all its sequences in one run of the schedule, else one micro-batch at a time.
    """
    microbatch, has_stages = out["microbatch_size"], out["pipeline_parallel_degree"] > 1
    out.write("sequences of a step", T, global_batch_size=out["batch_size"])
    local_batch = out["batch_size"] // out["data_parallel_degree"] if has_stages else microbatch
    out.write("sequences of a replica at once", T, local_batch_size=local_batch)
    if has_stages:
        out.write("sequences of a micro-batch in the pipeline", P, pipeline_parallel_microbatch_size=microbatch)


# What changes the format of products; other converters change the layers.
CONVERTERS = ("float8", "mx", "nvfp4")
# Keys that convert products to fp8 without a converter.
FLOAT8 = ("quantize.linear.float8.recipe_name", "quantize.linear.float8.enable_fsdp_float8_all_gather", "float8.recipe_name")  # fmt: skip


def read_precision(reading: Reading) -> dict[str, Any]:
    """Reads the format of matrix products: fp8 or fp4 by a converter, else bf16 or fp32 by FSDP2's mixed precision."""
    converters = [word.lower() for word in reading.words("model.converters", "matrix_precision")]
    unknown = [word for word in converters if not any(converter in word for converter in CONVERTERS)]
    if unknown:
        reading.unsupported("model.converters", f"{', '.join(unknown)}: amped does not know this change of the layers")
    converter_text = " ".join([*converters, *("float8" for key in FLOAT8 if reading.get(key, "fp8_scaling"))])
    if "nvfp4" in converter_text:
        return {"matrix_precision": "fp4"}
    if "float8" in converter_text or "mx" in converter_text:
        return {"matrix_precision": "fp8", "fp8_scaling": "blocks" if "mx" in converter_text else "current"}
    parameter_format = reading.word(f"{T}mixed_precision_param", "matrix_precision", "bfloat16")
    return {"matrix_precision": "bf16" if parameter_format == "bfloat16" else "fp32"}


def write_precision(out: Outgoing) -> None:
    """Writes the format of matrix products, and a converter for fp8 and fp4. Reports fp16 and tf32 as lost."""
    form = out["matrix_precision"]
    converters = {"fp8": "mx" if out["fp8_scaling"] == "blocks" else "float8", "fp4": "nvfp4"}
    out.write("format of products", T, mixed_precision_param="float32" if form in ("fp32", "tf32") else "bfloat16")
    if form in converters:
        out.write(f"products in {form}", "model.", converters=[converters[form]])
    if form in ("fp16", "tf32"):
        out.lose("matrix_precision", f"{form}: torchtitan trains in bf16 or fp32")
    if form != "fp8":
        out.idle.add("fp8_scaling")
    elif out["fp8_scaling"] == "tensors":
        out.lose("fp8_scaling", "tensors: torchtitan takes the scales of the tensors themselves (current)")


def read_offload(reading: Reading) -> dict[str, Any]:
    """Reads one switch as the shares of optimizer states and of weights that the host keeps: both 1.0 or both 0.0."""
    share = float(reading.flag(f"{T}enable_cpu_offload", "optimizer_offload"))
    return {"optimizer_offload": share, "weight_offload": share}


def write_offload(out: Outgoing) -> None:
    """Writes whether the host keeps optimizer states and weights; any part of them is reported as lost."""
    shares = {name: out[name] for name in ("optimizer_offload", "weight_offload")}
    is_whole = all(share == 1 for share in shares.values())
    out.write("weights and states lie on the host", T, enable_cpu_offload=is_whole)
    if any(shares.values()) and not is_whole:
        for name in shares:
            out.lose(name, "torchtitan offloads weights and states together, or nothing")


def read_overlap(reading: Reading) -> dict[str, Any]:
    """Reads that messages of data parallelism overlap computation: FSDP2 always does so, and no key says otherwise."""
    del reading
    return {"overlap_data_communication": True}


def write_overlap(out: Outgoing) -> None:
    """Writes nothing: FSDP2 always overlaps its messages. A configuration without overlap is reported as lost."""
    if not out["overlap_data_communication"]:
        out.lose("overlap_data_communication", "FSDP2 always gathers and scatters beside computation")


def read_graphs(reading: Reading) -> dict[str, Any]:
    """Reads whether the forward and backward passes of a step are one CUDA graph ("step") or not ("none").

    Releases before 0.3.0 have no such key and no graph.
    """
    is_disabled = reading.flag(f"{T}disable_cuda_graphs", "cuda_graph_scope", True)
    return {"cuda_graph_scope": "none" if is_disabled else "step"}


def write_graphs(out: Outgoing) -> None:
    """Writes whether the step is one CUDA graph.

    Release 0.3.0 refuses the graph with pipelines, and with split experts, for which the host waits. Other scopes are lost.
    """
    scope = out["cuda_graph_scope"]
    is_refused = out["pipeline_parallel_degree"] > 1 or out["expert_parallel_degree"] > 1
    has_graph = scope == "step" and not is_refused
    out.write(
        "the step is one CUDA graph" if has_graph else "the host launches each kernel",
        T,
        disable_cuda_graphs=not has_graph,
    )
    if scope != "none" and not has_graph:
        out.lose(
            "cuda_graph_scope", f"{scope}: torchtitan captures whole steps, without pipelines and shared-out experts"
        )


def read_recomputation(reading: Reading) -> dict[str, Any]:
    """Reads which activations the backward pass computes again: none, every second product (selective, option "op"), or whole layers.

    A config that 0.3.0 saves has no mode; the class follows from its fields.
    """
    quantity, section = "activation_recomputation", "activation_checkpoint"
    kind = reading.word(section, quantity, _saved_class(reading.raw, section))
    mode = reading.word(f"{section}.mode", quantity, kind).lower()
    option = str(reading.get(f"{section}.selective_ac_option", quantity, "op"))
    if "selective" in mode and option not in ("op", "2"):
        reading.unsupported(f"{section}.selective_ac_option", f"{option}: read as every second product")
    if reading.get(f"{section}.memory_budget", quantity) is not None:
        what = "the compiler chooses within a budget: read as every second product"
        reading.unsupported(f"{section}.memory_budget", what)
    return {quantity: "full" if "full" in mode else "none" if "none" in mode else "alternate_products"}


def _saved_class(raw: Mapping[str, Any], section: str) -> str:
    """The name of the class of recomputation in a saved config of 0.3.0: "none", "full" or "selective".

    Null means none. FullAC and SelectiveAC are told apart by their fields.

    Args:
        raw: the keys of the file.
        section: the section of recomputation.
    """
    if section in raw and raw[section] is None:
        return "none"
    may_be_full = f"{section}.preserve_rng_state" in raw and f"{section}.mode" not in raw
    selective_fields = ("force_recompute_mm_shapes_by_fqns", "memory_budget")
    is_selective = any(f"{section}.{name}" in raw for name in selective_fields)
    return "full" if may_be_full and not is_selective else "selective"


AC = {"none": "none", "full": "full", "alternate_products": "selective"}


def write_recomputation(out: Outgoing) -> None:
    """Writes none, every second product, or whole layers; other kinds are written as whole layers and reported as lost."""
    kind = out["activation_recomputation"]
    out.write("activations that the backward pass computes again", "activation_checkpoint.", mode=AC.get(kind, "full"))
    if kind not in AC:
        out.lose(
            "activation_recomputation", f"{kind}: torchtitan has none, every second product, or all layers (written)"
        )


def read_stages(reading: Reading) -> dict[str, Any]:
    """Reads the schedule of the pipeline and the chunks of a stage; empty without a pipeline.

    An unknown schedule is read as 1F1B. amped balances the stages itself; fewer layers at the ends are reported.
    """
    name = reading.word(f"{P}pipeline_parallel_schedule", "pipeline_schedule", "1F1B")
    reading.number(f"{P}pipeline_parallel_layers_per_stage", "virtual_pipeline_stages", least=1)
    layers_less_at_ends = [
        reading.number(f"{P}pipeline_parallel_{end}_stage_less_layers", "pipeline_schedule", 1)
        for end in ("first", "last")
    ]
    schedules = {theirs.lower(): amped for amped, theirs in SCHEDULES.items()}
    if reading.degree("pipeline") == 1:
        return {}
    if any(layers_less_at_ends):
        reading.defaulted(
            f"{P}pipeline_parallel_first_stage_less_layers",
            "amped balances the stages itself (embedding and output head count)",
        )
    if name.lower() == INTERLEAVED.lower():
        return {"pipeline_schedule": "1f1b", "virtual_pipeline_stages": DEFAULT_CHUNKS}
    if name.lower() not in schedules:
        reading.unsupported(f"{P}pipeline_parallel_schedule", f"{name}, read as 1F1B")
    return {"pipeline_schedule": schedules.get(name.lower(), "1f1b")}


def write_stages(out: Outgoing) -> None:
    """Writes the schedule of the pipeline and the layers of a chunk; other schedules are written as 1F1B and reported as lost."""
    stages, chunks, kind = (
        out[name] for name in ("pipeline_parallel_degree", "virtual_pipeline_stages", "pipeline_schedule")
    )
    if stages == 1:
        out.idle |= {"pipeline_schedule", "virtual_pipeline_stages"}
        return
    is_interleaved = chunks > 1 and kind == "1f1b"
    out.write(
        "order of the passes",
        P,
        pipeline_parallel_schedule=INTERLEAVED if is_interleaved else SCHEDULES.get(kind, "1F1B"),
    )
    if is_interleaved:
        layers = -(-out["layers"] // (stages * chunks))
        out.write(f"{chunks} chunks of layers of a stage", P, pipeline_parallel_layers_per_stage=layers)
        if chunks != DEFAULT_CHUNKS:
            out.lose("virtual_pipeline_stages", "a saved config without the network's layers does not say the chunks")
    if kind not in SCHEDULES:
        out.lose("pipeline_schedule", f"{kind}: torchtitan has {', '.join(SCHEDULES.values())}; 1F1B is written")


RULES = {
    "sharding": Rule(read_sharding, write_sharding),
    "batch": Rule(read_batch, write_batch), "precision": Rule(read_precision, write_precision),
    "offload": Rule(read_offload, write_offload), "overlap": Rule(read_overlap, write_overlap),
    "graphs": Rule(read_graphs, write_graphs),
    "recomputation": Rule(read_recomputation, write_recomputation), "stages": Rule(read_stages, write_stages),
}  # fmt: skip


def read_toml(text: str, file: str) -> Imported:
    """The training that a TOML file describes."""
    return read(parse_toml(text), file)


def read(raw: Mapping[str, Any], file: str) -> Imported:
    """The training that the sections of a saved config describe, by the names of 0.3.0 or of main."""
    reading = _older_names(Reading(flat(raw)))
    software = COMPILED if replace(reading, taken={}).flag("compile.enable", "software") else SOFTWARE
    return read_sections(FORM, reading, file, RULES, software)


def _older_names(newer: Reading) -> Reading:
    """A file with the keys of 0.3.0, which count sequences, instead of the keys of main, which count tokens."""
    fields, places = dict(newer.raw), dict[str, str]()
    newer.refuse_section((CONTEXT, *TOKENS.values()))
    if fields.get(LONGEST) is not None:
        fields[CONTEXT], places[CONTEXT] = fields.pop(LONGEST), LONGEST
    context = Reading(fields, places).number(CONTEXT, "context", least=1)
    for theirs, ours in TOKENS.items():
        tokens = _count_or_rest(newer, theirs, "batch_size")
        if tokens == REST:
            fields.pop(theirs, None)  # the framework's own default
        elif context is not None:
            fields[ours], places[ours] = max(tokens // context, 1), theirs
            del fields[theirs]
    microbatches = newer.number(RUNS, "microbatch_size", least=1)
    if microbatches is not None:
        local_batch = Reading(fields, places).number(f"{T}local_batch_size", "microbatch_size", 1, least=1)
        fields[MICRO] = max(local_batch // microbatches, 1)
    fields.pop(RUNS, None)
    return Reading(fields, places)


def _count_or_rest(reading: Reading, name: str, quantity: str) -> int:
    """The value of a key that is a count of at least 1, or `REST` (-1), which is also the default.

    Raises:
        ConfigError: for another value.
    """
    reading.refuse_section((name,))
    return REST if reading.get(name, quantity, REST) == REST else reading.number(name, quantity, REST, least=1)


# The tokens of a sequence in main and in 0.3.0, and the micro-batches of one run of the pipeline in main.
LONGEST, CONTEXT, RUNS = f"{T}max_context_length", f"{T}seq_len", f"{P}num_pp_microbatches"
# The sequences of a micro-batch in 0.3.0.
MICRO = f"{P}pipeline_parallel_microbatch_size"
# Numbers of tokens in main, and of sequences in 0.3.0.
TOKENS = {
    f"{T}num_tokens_per_microbatch_per_dp_rank": f"{T}local_batch_size",
    f"{T}num_tokens_per_train_step": f"{T}global_batch_size",
}


def fields_of(e: Estimation) -> Outgoing:
    """An estimated configuration as fields of 0.3.0, by dotted key."""
    out = written(e, FORM, RULES)
    if _row_name(e, MAPPING).endswith("compiled"):
        out.write("blocks are compiled", "compile.", enable=True)
    elif out.fields.get("compile.enable_async_tensor_parallel"):
        out.write("products overlap messages in compiled blocks only", "compile.", enable=True)
        out.lose("software", "torchtitan overlaps tensor parallelism only in compiled blocks: compile is switched on")
    network = shipped(out, _row_name(e, NETWORK))
    out.lost += of_tower(out)
    if out["cross_attention_layers"] > 0:
        out.lose(
            "cross_attention_layers", "torchtitan's language models are decoders: an encoder beside one is not written"
        )
    if _row_name(e, NETWORK) not in network["rows"]:
        out.lose("model", f"torchtitan ships no such network: {network['recipe'][1]} is the nearest; change its sizes")
    return out


def _row_name(e: Estimation, category: str) -> str:
    """The name of a configuration's row in the table of a category; empty if it has none."""
    row = e.scenario.sources.rows.get(category)
    return row.name if row else ""


def shipped(out: Outgoing, model: str) -> dict[str, Any]:
    """The network that torchtitan ships and that a recipe starts from.

    It is the one of the same row, else the nearest in size among those that are most alike in kind.

    Args:
        out: the configuration.
        model: the name of its row.
    """
    networks: list[dict[str, Any]] = table(FORM)["networks"]
    size = _size(out.values)

    def distance(network: dict[str, Any]) -> tuple[bool | float, ...]:
        """Whether the row differs, whether each property of the kind differs, and the ratio of sizes (as a logarithm)."""
        unlike = (theirs != ours for theirs, ours in zip(_kind(network), _kind(out.values), strict=True))
        return (model not in network["rows"], *unlike, abs(math.log(_size(network) / size)))

    return min(networks, key=distance)


def _kind(network: Mapping[str, Any]) -> tuple[bool | str, ...]:
    """The properties that tell kinds of networks apart, the most important first.

    They are experts, latent attention, linear attention, sinks, and norms of queries and keys.
    """
    linear = network.get("linear_attention_kind") or "none"
    latent = network.get("attention_kind") == "multi_latent"
    sinks, norms = (bool(network.get(name)) for name in ("attention_sinks", "query_key_norm"))
    return (network.get("number_of_experts") or 1) > 1, latent, linear, sinks, norms


def _size(network: Mapping[str, Any]) -> float:
    """A number that grows as the parameters do: layers times the square of the width."""
    return float(network["layers"] * network["dimensionality"] ** 2)


def write(e: Estimation, main: bool = False) -> str:
    """The text of a recipe: a Python function that starts from a shipped recipe and sets what the mapping needs.

    Args:
        e: the estimate.
        main: whether the names of the main branch are used, not those of 0.3.0.
    """
    out = fields_of(e)
    module, shipped_recipe = shipped(out, _row_name(e, NETWORK))["recipe"]
    fields, why = _newer_names(out) if main else (out.fields, out.why)
    lines = [
        f"    config.{place} = {value!r}".ljust(72) + f"  # {why[place]}"
        for place, value in fields.items()
        if place.split(".")[0] in ("training", "parallelism", "compile")
    ]
    mode, converters = fields["activation_checkpoint.mode"], fields.get("model.converters")
    policy = {"none": "None", "full": "FullAC.Config()", "selective": "SelectiveAC.Config()"}[mode]
    lines.append(f"    config.activation_checkpoint = {policy}".ljust(72) + f"  # {why['activation_checkpoint.mode']}")
    if converters:
        lines.append(
            f"    # products in {out.values['matrix_precision']}: add the {converters[0]} converter to the model's spec, as the shipped recipes do"
        )
    return "\n".join([
        *heading(out, MAIN if main else VERSION, e),
        f"# save as {RECIPE}.py, in the folder where it starts",
        run_line(out, f"-m torchtitan.train --module {RECIPE} --config {RECIPE}"),
        "from torchtitan.distributed.activation_checkpoint import FullAC, SelectiveAC  # noqa: F401",
        f"from torchtitan.models.{module}.config_registry import {shipped_recipe}", "from torchtitan.trainer import Trainer", "", "",
        f"def {RECIPE}() -> Trainer.Config:", f"    config = {shipped_recipe}()", *lines, "    return config", "",
    ])  # fmt: skip


write_main = partial(write, main=True)


def _newer_names(out: Outgoing) -> tuple[dict[str, Any], dict[str, str]]:
    """The fields and their reasons by the names of the main branch, which count tokens and not sequences."""
    tokens = {ours: theirs for theirs, ours in TOKENS.items()}
    fields, why = dict[str, Any](), dict[str, str]()
    for place, value in out.fields.items():
        name = {CONTEXT: LONGEST, **tokens}.get(place, place)
        fields[name], why[name] = value, out.why[place]
        if place in tokens:
            fields[name], why[name] = value * out.fields[CONTEXT], why[name].replace("sequences", "tokens")
    if MICRO in fields:
        fields[RUNS] = out.fields[f"{T}local_batch_size"] // fields.pop(MICRO)
        why[RUNS] = "micro-batches of one run of the pipeline"
    return fields, why
