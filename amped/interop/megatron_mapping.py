"""Megatron-LM's arguments about precision and mapping, where several of them and several quantities belong together."""

from __future__ import annotations

from contextlib import suppress
from typing import Any

from amped.base.errors import ConfigError, Problem, quoted
from amped.configuring.layout_text import Layout
from amped.configuring.settings import setting
from amped.interop.outgoing import ACCELERATORS_PER_HOST, Outgoing, Rule, servers
from amped.interop.records import Reading, whole

# The scales of Megatron-LM's recipes of fp8; the last recipe of a kind is the one that is written.
SCALED = {"delayed": "tensors", "tensorwise": "current", "mxfp8": "blocks", "blockwise": "blocks"}
RECIPES = {scaling: recipe for recipe, scaling in SCALED.items()}
WHAT_HAS_SCALES = {
    "tensors": "tensors have scales of earlier steps",
    "current": "tensors have scales",
    "blocks": "blocks have scales (mxfp8 on Blackwell)",
}
END_FORMAT = "end_layer_format"
WIDE_ENDS = {
    "num_layers_at_start_in_bf16": "number_of_first_wide_layers",
    "num_layers_at_end_in_bf16": "number_of_last_wide_layers",
}
BITS = {"fp32": 32, "bf16": 16, "fp16": 16, "fp8": 8}
# torch's names of formats, as a saved config has them.
OF_TORCH = {"float32": "fp32", "bfloat16": "bf16", "float16": "fp16", "uint8": "fp8"}
# Strategies of Megatron-FSDP, each at the place of its ZeRO stage.
SHARDED = ("no_shard", "optim", "optim_grads", "optim_grads_params")
# The last name of a kind is the one that is written.
HIERARCHICAL = "hierarchical"
KINDS = {
    "p2p": "ring",
    "allgather": "all_gather",
    "all_gather": "all_gather",
    "a2a": "all_to_all",
    "a2a+p2p": HIERARCHICAL,
}
# Modules of selective recomputation that amped has, and their names.
MODULES = {
    "layernorm": "norm_recomputation",
    "moe_act": "activation_function_recomputation",
    "mla_up_proj": "latent_projection_recomputation",
}


def read_precision(reading: Reading) -> dict[str, Any]:
    """Reads the format of matrix products: fp4, fp8 (with what has scales, and which), bf16, fp16 or fp32."""
    plain_format = next((name for name in ("bf16", "fp16") if reading.flag(name, "matrix_precision")), "fp32")
    recipe, ends = reading.word("fp8_recipe", "fp8_scaling", "delayed"), _wide_ends(reading)
    if reading.word("fp4", "matrix_precision"):
        reading.word("fp4_recipe", "matrix_precision")
        return {"matrix_precision": "fp4", **ends}
    if reading.word("fp8", "matrix_precision"):
        if recipe not in SCALED:
            reading.unsupported("--fp8-recipe", f"{recipe}, read as scales of tensors")
        return {"matrix_precision": "fp8", "fp8_scaling": SCALED.get(recipe, "tensors"), **ends}
    return {"matrix_precision": plain_format}


def _wide_ends(reading: Reading) -> dict[str, Any]:
    """The layers at both ends of the network that stay in 16 bits; nothing if all layers are alike."""
    numbers = {quantity: reading.number(name, quantity, 1) for name, quantity in WIDE_ENDS.items()}
    are_wide = reading.flag("first_last_layers_bf16", END_FORMAT)
    return {END_FORMAT: "activations", **numbers} if are_wide else {}


def _written_format(out: Outgoing) -> str:
    """The format of matrix products that is written: bf16 instead of fp16 if experts are split, else amped's."""
    number_format, splits_experts = out["matrix_precision"], out["expert_parallel_degree"] > 1
    return "bf16" if number_format == "fp16" and splits_experts and out["number_of_experts"] > 1 else number_format


def write_precision(out: Outgoing) -> None:
    """Writes the format of matrix products with its recipe. Reports tf32, and fp16 with split experts, as lost."""
    number_format = _written_format(out)
    if number_format != out["matrix_precision"]:
        out.lose("matrix_precision", "fp16: Megatron-LM shares out experts in bf16 only, which is written")
    if number_format == "fp4":
        out.write("products in NVFP4", bf16=True, fp4="e2m1", fp4_recipe="nvfp4")
    elif number_format == "fp8":
        out.write("products in fp8, the rest in bf16", bf16=True, fp8="hybrid")
        _write_recipe(out)
    elif number_format in ("bf16", "fp16"):
        out.write("format of products", **{number_format: True})
    elif number_format == "tf32":
        out.lose("matrix_precision", "tf32 is a setting of PyTorch, not an argument")
    if number_format in ("fp8", "fp4") and out[END_FORMAT] == "activations":
        numbers = {name: int(out[quantity]) for name, quantity in WIDE_ENDS.items()}
        out.write("layers at both ends stay in bf16", first_last_layers_bf16=True, **numbers)
    else:
        out.idle |= {END_FORMAT, *WIDE_ENDS.values()}


def _write_recipe(out: Outgoing) -> None:
    """Writes the recipe of fp8. Layers that stay in bf16 cannot stand beside scales of earlier steps in Megatron-LM."""
    scaling, has_wide_layers = out["fp8_scaling"], out[END_FORMAT] == "activations"
    if scaling == "tensors" and has_wide_layers:
        scaling = "current"
        out.lose("fp8_scaling", "delayed: Megatron-LM has no layers in bf16 beside it; tensorwise is written")
    out.write(WHAT_HAS_SCALES[scaling], fp8_recipe=RECIPES[scaling])


def read_gradients(reading: Reading) -> dict[str, Any]:
    """Reads the bits in which gradients are added up.

    They are 16 if a bf16 sum is asked for, or if matrix products are fp16 and no fp32 sum is asked for; else 32.

    Source: Megatron-LM adds up gradients of bf16 in fp32 (megatron/training/arguments.py).
    """
    quantity = "gradient_precision"
    main_format = _number_format(reading, "main_grads_dtype", quantity)
    is_16_bit = reading.flag("grad_reduce_in_bf16", quantity) or main_format in ("bf16", "fp16")
    is_fp16 = reading.values.get("matrix_precision") == "fp16"
    is_32_bit = reading.flag("accumulate_allreduce_grads_in_fp32", quantity) or not is_fp16
    return {"gradient_precision": 16 if is_16_bit or not is_32_bit else 32}


def write_gradients(out: Outgoing) -> None:
    """Writes whether gradients are added up in fp32 or bf16."""
    if out["gradient_precision"] >= 4:
        out.write("gradients are added up in fp32", accumulate_allreduce_grads_in_fp32=True)
    elif _written_format(out) != "fp16":
        out.write("gradients are added up in bf16", grad_reduce_in_bf16=True)


def _number_format(reading: Reading, name: str, quantity: str) -> str:
    """The format of numbers in an argument, fp32 by default; Megatron-LM's and torch's names are both read."""
    word = reading.word(name, quantity, "fp32").removeprefix("torch.")
    return OF_TORCH.get(word, word)


def read_states(reading: Reading) -> dict[str, Any]:
    """Reads the bits of the optimizer's copy of the weights, and of a moment: 32 unless it is aware of precision.

    Two moments of different formats are read as two of the mean size.
    """
    names = {"exp_avg_dtype": "moment_precision", "exp_avg_sq_dtype": "moment_precision",
             "main_params_dtype": "optimizer_state_precision"}  # fmt: skip
    has_formats = reading.flag("use_precision_aware_optimizer", "optimizer_state_precision")
    mean, square, weights = (BITS.get(_number_format(reading, name, of), 32) for name, of in names.items())
    if not has_formats:
        return {"optimizer_state_precision": 32, "moment_precision": 32}
    return {"optimizer_state_precision": weights, "moment_precision": (mean + square) / 2}


def _states_have_a_format(out: Outgoing) -> bool:
    """Whether Megatron-LM takes a format of optimizer states: only for Adam with states that replicas share (ZeRO)."""
    return out["optimizer"] != "sgd" and bool(out["zero_stage"])


def write_states(out: Outgoing) -> None:
    """Writes the formats of optimizer states below fp32, or reports them as lost if Megatron-LM takes none."""
    formats = {"moment_precision": {1: "fp8", 2: "bf16"}, "optimizer_state_precision": {2: "fp16"}}
    narrow = {name: words[out[name]] for name, words in formats.items() if out[name] in words}
    if narrow and not _states_have_a_format(out):
        for name, word in narrow.items():
            out.lose(name, f"{word}: only Adam with shared states (ZeRO 1) has states below fp32")
    elif narrow:
        moments, weights = (narrow.get(name, "fp32") for name in formats)
        what = f"the optimizer's moments are {moments}, its copy of the weights {weights}"
        out.write(what, use_precision_aware_optimizer=True, main_params_dtype=weights, exp_avg_dtype=moments,
                  exp_avg_sq_dtype=moments)  # fmt: skip


def read_steps(reading: Reading) -> dict[str, Any]:
    """Reads the number of training steps: given itself, or the sequences of the training divided by those of a batch."""
    steps = reading.number("train_iters", "number_of_steps")
    samples, batch = reading.number("train_samples", "number_of_steps"), reading.values.get("batch_size")
    if steps is None and samples and batch:
        steps = -(-samples // int(batch))
    return {"number_of_steps": steps or None}


def write_steps(out: Outgoing) -> None:
    """Writes the number of training steps."""
    out.write("steps of the training", train_iters=round(out["number_of_steps"] or 0) or None)


def read_offload(reading: Reading) -> dict[str, Any]:
    """Reads the shares of optimizer states and of activations that the host keeps, from 0 to 1."""
    is_offloaded = reading.flag("optimizer_cpu_offload", "optimizer_offload")
    share = reading.share("optimizer_offload_fraction", "optimizer_offload", 1.0)
    layers = reading.number("cpu_offloading_num_layers", "activation_offload", 0)
    stage_layers = int(reading.values.get("layers", 1)) / reading.degree("pipeline")
    share = share if is_offloaded else 0.0
    return {"optimizer_offload": share, "activation_offload": min(layers / stage_layers, 1.0) or None}


def write_offload(out: Outgoing) -> None:
    """Writes the share of optimizer states and the layers of activations that the host keeps. Part of a layer is lost."""
    share = out["optimizer_offload"]
    if share and not _states_have_a_format(out):
        out.lose("optimizer_offload", "Megatron-LM offloads the states of Adam where replicas share them (ZeRO 1)")
    elif share:
        out.write("the host keeps optimizer states", optimizer_cpu_offload=True, optimizer_offload_fraction=share,
                  use_precision_aware_optimizer=True)  # fmt: skip
    share, stage = out["activation_offload"], out["layers"] / out["pipeline_parallel_degree"]
    if share:
        out.write("layers of a stage whose activations lie on the host", cpu_offloading_num_layers=round(share * stage))
        if (share * stage) % 1:
            out.lose("activation_offload", f"{share:g} of {stage:g} layers is no whole number of layers")


# For each quantity the arguments that give it: of torchrun, of srun and #SBATCH.
STARTED = (
    (("nnodes", "nodes"), "number_of_accelerators"),
    (("nproc_per_node", "gpus_per_node", "ntasks_per_node"), "number_of_accelerators_per_node"),
)


def _first_number(reading: Reading, names: tuple[str, ...], quantity: str) -> int | None:
    """The first number above 0 of some arguments; None if there is none. All of them are marked as used."""
    return next((number for number in [reading.number(name, quantity) for name in names] if number), None)


def read_machine(reading: Reading) -> dict[str, Any]:
    """Reads the number of accelerators and of accelerators per node, from torchrun, #SBATCH lines or a log.

    A single server may have more accelerators than train, so that its size stays open.
    """
    nodes, accelerators = (_first_number(reading, names, quantity) for names, quantity in STARTED)
    world_size = reading.number("world_size", "number_of_accelerators")
    has_several_nodes = nodes is not None and nodes > 1  # one server may have more than train
    return {
        "number_of_accelerators": world_size or (nodes * accelerators if nodes and accelerators else None),
        "number_of_accelerators_per_node": accelerators if has_several_nodes else None,
    }


def write_machine(out: Outgoing) -> None:
    """Writes torchrun's --nnodes and --nproc-per-node, with equally many accelerators on every server.

    Reports the node size as lost if that differs.
    """
    nodes, accelerators = servers(out)
    out.write("servers", nnodes=nodes)
    out.write("accelerators of a server", nproc_per_node=accelerators)
    if ACCELERATORS_PER_HOST in out.values:
        # A node of this system is a rack of several hosts. torchrun counts hosts, so the size of the rack has no argument.
        out.idle.add("number_of_accelerators_per_node")
    elif accelerators != out["number_of_accelerators_per_node"] and nodes > 1:
        out.lose("number_of_accelerators_per_node", f"equally many, {accelerators}, start on each of {nodes} servers")


# The switches by which the split of layers counts the embedding and the output head; the micro-batches of a chunk in a row.
ENDS = ("account_for_embedding_in_pipeline_split", "account_for_loss_in_pipeline_split")
GROUP = "microbatch_group_size_per_vp_stage"


def read_stages(reading: Reading) -> dict[str, Any]:
    """Reads how layers are distributed over pipeline stages: a layout, the chunks of a stage, and layers of the first and last stage.

    With a layout the number of chunks follows from it.
    """
    stages, quantity = reading.degree("pipeline"), "virtual_pipeline_stages"
    layout = reading.word("pipeline_model_parallel_layout", "pipeline_layout")
    chunks = reading.number("num_virtual_stages_per_pipeline_rank", quantity) or reading.number(
        "virtual_pipeline_model_parallel_size", quantity
    )
    layers = reading.number("num_layers_per_virtual_pipeline_stage", quantity)
    chunks = chunks or (int(reading.values.get("layers", 1)) // (stages * layers) if layers else None)
    layout = layout or _layout_with_ends(reading, stages * (chunks or 1))
    if reading.raw.get(GROUP) == stages:
        reading.get(GROUP, "pipeline_parallel_degree")  # so many if nobody says it
    arguments_of_ends = {
        f"number_of_{end}_stage_layers": f"decoder_{end}_pipeline_num_layers" for end in ("first", "last")
    }
    return {
        "pipeline_layout": layout or None,
        quantity: (_chunks_of(layout, stages) if layout else chunks) or None,
        **{name: reading.number(argument, name) or None for name, argument in arguments_of_ends.items()},
    }


def _chunks_of(layout: str, stages: int) -> int | None:
    """The number of chunks of a stage in a layout of letters; None for a wrong layout, which another place refuses."""
    with suppress(ValueError):
        return len(Layout(layout).chunks) // stages or None
    return None


def _layout_with_ends(reading: Reading, parts: int) -> str | None:
    """The layout in letters if the split counts the embedding or the output head as a layer; None if it counts neither.

    Args:
        reading: the file.
        parts: the chunks of layers of all stages together.
    """
    counts_embedding, counts_head = (reading.flag(name, "pipeline_layout") for name in ENDS)
    layers = int(reading.values.get("layers", 1))
    layers_per_chunk, remainder = divmod(layers + counts_embedding + counts_head, parts)
    if parts == 1 or not (counts_embedding or counts_head):
        return None
    if remainder:
        reading.unsupported(f"--{ENDS[0].replace('_', '-')}", f"{layers} layers and the ends do not divide by {parts}")
        return None
    chunks = ["t" * layers_per_chunk] * parts
    chunks[0] = "E" + chunks[0][counts_embedding:]
    chunks[-1] = chunks[-1][counts_head:] + "L"
    return "|".join(chunks)


def write_stages(out: Outgoing) -> None:
    """Writes how layers are distributed over stages: a layout, or even chunks with own numbers for the first and last stage."""
    layout, chunks = out["pipeline_layout"], out["virtual_pipeline_stages"]
    if layout and out["pipeline_parallel_degree"] > 1:
        why = "layers of each stage: E embedding, t layer, m module for further tokens, L output head"
        text = _in_letters(Layout(layout), out["multi_token_prediction_layers"])
        out.write(why, pipeline_model_parallel_layout=text)
        return
    if chunks > 1:
        out.write("chunks of layers of a stage: a smaller bubble", num_virtual_stages_per_pipeline_rank=chunks)
    for end in ("first", "last"):
        if (name := f"number_of_{end}_stage_layers") in out.given:
            out.write(f"layers of the {end} stage", f"decoder_{end}_", pipeline_num_layers=out[name])


def _in_letters(layout: Layout, modules: int) -> str:
    """A layout in Megatron-LM's letters; a layout of numbers is converted, with `modules` modules for further tokens before L."""
    if layout.in_letters:
        return str(layout)
    stages = ["t*" + str(int(stage[0][0])) if stage[0][0] else "" for stage in layout.counts]
    return "E" + "|".join(stages) + "m" * modules + "L"


def read_context(reading: Reading) -> dict[str, Any]:
    """Reads the kind of context parallelism: how keys and values are exchanged. Mixed or unknown kinds are read as a ring."""
    kinds = reading.words("cp_comm_type", "context_parallel_kind", "p2p")
    if len(set(kinds)) != 1 or kinds[0] not in KINDS:
        reading.unsupported("--cp-comm-type", f"{' '.join(kinds)}, read as a ring")
        return {"context_parallel_kind": "ring"}
    if KINDS[kinds[0]] != HIERARCHICAL:
        return {"context_parallel_kind": KINDS[kinds[0]]}
    name = "hierarchical_context_parallel_sizes"
    sizes = reading.get(name, "ulysses_degree")
    if not sizes:
        return {"context_parallel_kind": HIERARCHICAL}
    heads = sizes.split()[0] if isinstance(sizes, str) else sizes[0]
    return {"context_parallel_kind": HIERARCHICAL, "ulysses_degree": whole(setting(str(heads)), reading.place(name), 1)}


def write_context(out: Outgoing) -> None:
    """Writes how context parallelism exchanges keys and values, if sequences are split."""
    if out["context_parallel_degree"] > 1:
        kind = {amped: theirs for theirs, amped in KINDS.items()}[out["context_parallel_kind"]]
        out.write("how keys and values travel", cp_comm_type=kind)
        if out["context_parallel_kind"] == HIERARCHICAL:
            heads = int(out["ulysses_degree"])
            sizes = f"{heads} {int(out['context_parallel_degree']) // heads}"
            out.write("neighbors that exchange heads, and their rings", hierarchical_context_parallel_sizes=sizes)
    else:
        out.idle.add("context_parallel_kind")


def read_sharding(reading: Reading) -> dict[str, Any]:
    """Reads the ZeRO stage and the sharding degree.

    The distributed optimizer is ZeRO 1. Megatron-FSDP names its stage by a strategy. Several instances of the distributed
    optimizer give the sharding degree.

    Raises:
        ConfigError: for an unknown strategy of Megatron-FSDP.
    """
    stage = int(reading.flag("use_distributed_optimizer", "zero_stage"))
    instances = reading.number("num_distributed_optimizer_instances", "zero_stage", 1, least=1)
    degree = _replicas_per_instance(reading, instances) if instances > 1 else None
    strategy = reading.word("data_parallel_sharding_strategy", "zero_stage", "optim_grads_params")
    if reading.flag("use_megatron_fsdp", "zero_stage"):
        if strategy not in SHARDED:
            place = reading.place("data_parallel_sharding_strategy")
            raise ConfigError(Problem(f"{quoted(strategy)} is no strategy", place, f"one of {', '.join(SHARDED)}"))
        stage = SHARDED.index(strategy)
    return {"zero_stage": stage, "sharding_degree": degree}


def _replicas_per_instance(reading: Reading, instances: int) -> int | None:
    """The number of replicas that one instance of the distributed optimizer has.

    None, with a line in the report, if the file does not say how many replicas there are.
    """
    total, per_replica = reading.values.get("number_of_accelerators"), reading.accelerators_of_a_replica
    if total and total % (per_replica * instances) == 0:
        return int(total) // per_replica // instances
    what = f"{instances}: give --set sharding_degree=N, the replicas of one instance"
    reading.unsupported("--num-distributed-optimizer-instances", what)
    return None


def write_sharding(out: Outgoing) -> None:
    """Writes ZeRO 1 as the distributed optimizer, and ZeRO 2 and 3 as strategies of Megatron-FSDP."""
    stage = out["zero_stage"]
    if stage == 1:
        out.write("replicas share the optimizer's states (ZeRO 1)", use_distributed_optimizer=True)
    elif stage > 1:
        out.write(f"replicas share states, gradients{' and weights' if stage == 3 else ''} (ZeRO {stage})",
                  use_megatron_fsdp=True, data_parallel_sharding_strategy=SHARDED[stage], use_distributed_optimizer=True)  # fmt: skip
        if out["pipeline_parallel_degree"] > 1:
            out.lose("zero_stage", "Megatron-FSDP is not made for pipelines: Megatron-LM may refuse it")


def read_recomputation(reading: Reading) -> dict[str, Any]:
    """Reads which activations the backward pass computes again: none, whole layers, some layers (block), or modules."""
    quantity = "activation_recomputation"
    method = reading.word("recompute_method", quantity)
    layers = reading.number("recompute_num_layers", "number_of_recomputed_layers")
    implied_granularity = "selective" if reading.flag("recompute_activations", quantity) else None
    granularity = reading.word("recompute_granularity", quantity) or implied_granularity
    modules = reading.words("recompute_modules", quantity, "core_attn")
    if granularity == "full" and method == "block":
        return {quantity: "block", "number_of_recomputed_layers": layers or 1}
    if granularity == "full":
        return {quantity: "full"}
    if granularity != "selective":
        return {quantity: "none"}
    unknown = [name for name in modules if name not in (*MODULES, "core_attn")]
    if unknown:
        reading.unsupported("--recompute-modules", f"{', '.join(unknown)}: amped does not compute these modules again")
    recomputed = {MODULES[name]: True for name in modules if name in MODULES}
    return {quantity: "selective" if "core_attn" in modules else "none", **recomputed}


# What other frameworks compute again, and Megatron does not.
OF_OTHERS = {
    "alternate_products": "every second product is torchtitan's",
    "kept_products": "products that are kept by name are JAX's",
}


def write_recomputation(out: Outgoing) -> None:
    """Writes which activations the backward pass computes again.

    Kinds that only other frameworks have, and modules beside whole layers, are reported as lost.
    """
    kind, why = out["activation_recomputation"], "activations that the backward pass computes again"
    modules = [theirs for theirs, name in MODULES.items() if out[name]]
    if kind in ("full", "block"):
        method, layers = ("uniform", 1) if kind == "full" else ("block", out["number_of_recomputed_layers"])
        out.write(why, recompute_granularity="full", recompute_method=method, recompute_num_layers=layers)
        for name in modules:
            out.lose(MODULES[name], "single modules are not computed again beside whole layers")
    elif kind == "selective" or modules:
        names = [*(["core_attn"] if kind == "selective" else []), *modules]
        out.write(why, recompute_granularity="selective", recompute_modules=" ".join(names))
    if kind in OF_OTHERS:
        out.lose("activation_recomputation", f"{OF_OTHERS[kind]}; none is written")
    if "moe_act" in modules and out["number_of_experts"] <= 1:
        what = "moe_act is about experts; dense networks keep the outputs of their activation functions"
        out.lose("activation_function_recomputation", what)


def read_overlap(reading: Reading) -> dict[str, Any]:
    """Reads whether the messages of data parallelism and of the pipeline overlap computation (the latter needs chunks)."""
    reduces, gathers = (
        reading.flag(name, "overlap_data_communication") for name in ("overlap_grad_reduce", "overlap_param_gather")
    )
    if reduces and not gathers and reading.values.get("zero_stage"):
        reading.unsupported(
            "--overlap-grad-reduce", "gradients alone travel beside computation; amped overlaps weights too"
        )
    has_chunks = reading.values.get("virtual_pipeline_stages", 1) > 1 or reading.values.get("pipeline_layout")
    is_overlapped = reading.flag("overlap_p2p_comm", "overlap_pipeline_communication", True)
    return {"overlap_data_communication": reduces, "overlap_pipeline_communication": bool(is_overlapped and has_chunks)}


def write_overlap(out: Outgoing) -> None:
    """Writes which messages overlap computation.

    Megatron-LM overlaps the messages of the pipeline if stages have several chunks; any other choice is reported as lost.
    """
    if out["overlap_data_communication"]:
        overlaps_weights = True if out["zero_stage"] else None
        why = "gradients and weights travel beside computation"
        out.write(why, overlap_grad_reduce=True, overlap_param_gather=overlaps_weights)
    stages, name = out["pipeline_parallel_degree"], "overlap_pipeline_communication"
    has_chunks = out["virtual_pipeline_stages"] > 1
    if stages == 1:
        out.idle.add(name)
    elif out[name] and not has_chunks:
        out.lose(name, "Megatron-LM overlaps the pipeline's messages only with several chunks a stage")
    elif has_chunks and not out[name] and stages == 2:
        out.lose(name, "Megatron-LM waits for messages of chunks from 3 stages on")
    elif has_chunks and not out[name]:
        out.write("the pipeline's messages are waited for", overlap_p2p_comm=False)


# The modules that --cuda-graph-scope names, as amped's scopes: the first set that holds all of them.
GRAPHS = (
    (frozenset(("moe_router", "moe_preprocess")), "router_alone"),
    (frozenset(("attn", "moe_router", "moe_preprocess")), "router"),
    (frozenset(("full", "full_layer")), "layer"),
    (frozenset(("full_iteration",)), "step"),
)
# The words of a scope that is written for each of amped's.
SCOPES = {
    "router_alone": "moe_router moe_preprocess",
    "router": "attn moe_router moe_preprocess",
    "step": "full_iteration",
}


def read_graphs(reading: Reading) -> dict[str, Any]:
    """Reads what the host launches as one CUDA graph: "none", "layer", "router", "router_alone" or "step".

    A switch without a scope means each layer. A scope that amped does not have is read as none, with a line in the report.
    """
    quantity = "cuda_graph_scope"
    switches = [reading.flag(name, quantity) for name in ("enable_cuda_graph", "external_cuda_graph")]
    implementation = reading.word("cuda_graph_impl", quantity, "none")
    words = reading.words("cuda_graph_scope", quantity)
    if not any(switches) and implementation in ("none", "None"):
        return {quantity: "none"}
    scope = next((name for modules, name in GRAPHS if modules.issuperset(words)), "none") if words else "layer"
    if scope == "none":
        what = f"{' '.join(words)}: amped has no graph of these modules alone; read as none"
        reading.unsupported("--cuda-graph-scope", what)
    return {quantity: scope}


def write_graphs(out: Outgoing) -> None:
    """Writes the scope of CUDA graphs: a layer, parts of a layer, or the whole step; nothing without graphs."""
    scope = out["cuda_graph_scope"]
    if scope != "none":
        out.write("what the host launches as one CUDA graph", cuda_graph_scope=SCOPES.get(scope),
                  cuda_graph_impl="local" if scope == "step" else "transformer_engine")  # fmt: skip


RULES = {
    "graphs": Rule(read_graphs, write_graphs),
    "precision": Rule(read_precision, write_precision), "gradients": Rule(read_gradients, write_gradients), "states": Rule(read_states, write_states),
    "steps": Rule(read_steps, write_steps), "offload": Rule(read_offload, write_offload), "machine": Rule(read_machine, write_machine),
    "stages": Rule(read_stages, write_stages), "context": Rule(read_context, write_context), "sharding": Rule(read_sharding, write_sharding),
    "recomputation": Rule(read_recomputation, write_recomputation), "overlap": Rule(read_overlap, write_overlap),
}  # fmt: skip
