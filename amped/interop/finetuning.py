"""Fine-tuning, in: PEFT's adapters, and the files of TRL, Axolotl, LLaMA-Factory and torchtune.

The keys of each format become those of Hugging Face's trainers (TRL, transformers, PEFT): `names` and `words` of the format's
JSON say how. One set of rules reads these.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

from amped.base.errors import AmpedError, ConfigError, Problem
from amped.base.files import is_file, parse_json, read_json, read_text
from amped.configuring.values import read_value
from amped.interop import CONFIG, deepspeed, huggingface
from amped.interop.fields import table
from amped.interop.outgoing import Rule
from amped.interop.records import Imported, Reading, Report, ReportLine, whole
from amped.interop.rest import not_modeled
from amped.interop.sections import NO_SIZES, flat, parse_yaml, read_keys
from amped.tables.table_files import MODELS
from amped.tables.tables import user_tables
from amped.theory.language.catalogue import catalogue

# The format whose names stand for all, and the table of what rules have in common.
FORM, COMMON = "trl", "finetuning"
MODEL, F, P, Z = "model_name_or_path", "fsdp_config.", "parallelism_config.", "deepspeed."
# The switches of adapters by module, and the words that mean all of them.
SWITCHES = tuple(f"{module}_adapters" for module in ("query", "key", "value", "attention_output", "gate", "up", "down"))
MLP = ("gate_adapters", "up_adapters", "down_adapters")
ALL = ("all", "all-linear", "all_linear")
ENDS = {"embed_tokens", "wte", "word_embeddings", "tok_embeddings", "lm_head", "output", "embed_out"}


def usual(reading: Reading, key: str) -> Any:
    """The value that the format takes without a key, with a line in the report if the file lacks it; None if there is none."""
    value = reading.family["usual"].get(key)
    if value is not None and reading.raw.get(key) is None:
        reading.defaulted(reading.place(key), f"{str(value).lower()}: what {reading.family['title']} takes")
    return value


def is_on(reading: Reading, key: str, quantity: str) -> bool:
    """Whether a switch is on, with the value that the format takes without it."""
    return reading.flag(key, quantity, bool(usual(reading, key)))


def read_adapters(reading: Reading) -> dict[str, Any]:
    """Reads the adapters: their kind, rank, dropout and places, what is trained whole beside them, and the frozen weights.

    Empty if all weights are trained.
    """
    if not is_on(reading, "use_peft", "adapters"):
        return {}
    is_decomposed, places = reading.flag("use_dora", "adapters"), _adapted(reading)
    dropout = reading.share("lora_dropout", "adapter_dropout", usual(reading, "lora_dropout") or 0.0)
    return {
        "adapters": "dora" if is_decomposed else "lora",
        "adapter_rank": reading.number("lora_r", "adapter_rank", usual(reading, "lora_r"), least=1),
        "adapter_dropout": dropout,
        **places,
        **_depth(reading),
        **_ends(reading),
        **_frozen(reading),
    }


def _of_experts(reading: Reading) -> dict[str, Any]:
    """The adapters of experts, where the format says that they have any: one for all of an accelerator, or one each.

    Of other formats they are reported: which module of a mixture a name means depends on the network's code.
    """
    network, key = {**reading.family["columns"], **reading.values}, "share_expert_adapters"
    if (network.get("number_of_experts") or 1) <= 1:
        return {}
    if key not in reading.family["usual"]:
        _tell(reading, TARGETS, table(COMMON)["adapted experts"])
        return {}
    return {"expert_adapters": "shared" if is_on(reading, key, "expert_adapters") else "each"}


def _adapted(reading: Reading) -> dict[str, Any]:
    """The places of adapters, and whether products that are computed together share one.

    A pattern is read as the names of modules in it. A name that says a layer, or no module that amped knows, is reported.
    """
    places: dict[str, list[str]] = table(COMMON)["modules"]
    named, joint, experts = set[str](), False, dict[str, Any]()
    if reading.flag("lora_target_mlp", "gate_adapters"):
        named.update(MLP)
    if reading.flag("lora_target_output", "adapters"):
        _tell(reading, "lora_target_output", table(COMMON)["adapted end"])
    for target in _targets(reading):
        words = re.findall(r"\w+", target)
        switches = {switch for word in words for switch in places.get(word, ())}
        if target in ALL:
            switches = set(SWITCHES)
        elif not switches:
            _report_unknown_target(reading, target)
        elif any(word.isdigit() for word in words):
            reading.unsupported(reading.place(TARGETS), f"{target}: adapters in some layers, read as in all")
        joint = joint or any(word in table(COMMON)["joint"] for word in words)
        named |= switches
    if named & {*MLP}:
        experts = _of_experts(reading)
    return {**{switch: switch in named for switch in SWITCHES}, "joint_adapters": joint, **experts}


TARGETS = "lora_target_modules"


def _targets(reading: Reading) -> list[str]:
    """The names or patterns of the modules that have adapters.

    Raises:
        ConfigError: for a value that is neither text nor a list of texts.
    """
    value = reading.get(TARGETS, ", ".join(SWITCHES))
    if value is None:
        value = usual(reading, TARGETS) or []
    targets = value.split(",") if isinstance(value, str) else value
    if not isinstance(targets, list) or not all(isinstance(target, str) for target in targets):
        raise ConfigError(Problem("is no list of the names of modules", reading.place(TARGETS)))
    return [target.strip() for target in targets if target.strip()]


def _report_unknown_target(reading: Reading, target: str) -> None:
    """Reports an adapter beside a module that has none in amped, with its parameters if the network is known."""
    row = "adapted end" if target.rpartition(".")[2] in ENDS else "adapted module"
    _tell(reading, TARGETS, table(COMMON)[row], target)


def _tell(reading: Reading, key: str, row: Mapping[str, Any], value: str = "") -> None:
    """Reports a feature that amped does not model, with its sizes as far as the network is known.

    Args:
        reading: the file.
        key: the key that asks for it.
        row: the row of the feature.
        value: the value of the key, if the feature is one of several.
    """
    row = {**row, "what": f"{value}: {row['what']}" if value else row["what"]}
    known = replace(reading, values={**reading.family["columns"], **reading.values})
    reading.report.unsupported.append(not_modeled(known, row, reading.place(key)))


def _depth(reading: Reading) -> dict[str, Any]:
    """The layers with adapters, if these are the last ones of the network; other choices are reported and read as all layers.

    Raises:
        ConfigError: for a layer that is no whole number.
    """
    key, quantity = "lora_layers_to_transform", "number_of_adapted_layers"
    value, network = reading.get(key, quantity), {**reading.family["columns"], **reading.values}
    layers = network.get("layers")
    if value in (None, []):
        return {}
    chosen = {whole(layer, reading.place(key), 0) for layer in (value if isinstance(value, list) else [value])}
    if layers and chosen == {*range(int(layers) - len(chosen), int(layers))}:
        return {quantity: len(chosen)}
    which = "not the last ones" if layers else "of a network that is not known"
    reading.unsupported(reading.place(key), f"adapters in {len(chosen)} layers, {which}: read as in all")
    return {}


def _ends(reading: Reading) -> dict[str, Any]:
    """Whether embedding and output head are trained whole; one of them alone is read as both, with a line in the report."""
    key, quantity = "lora_modules_to_save", "trained_ends"
    names = set(reading.words(key, quantity))
    if not names:
        return {}
    if strange := names - ENDS:
        reading.unsupported(
            reading.place(key), f"{', '.join(sorted(strange))}: trained whole, which amped does not model"
        )
    if len(names & ENDS) == 1:
        reading.defaulted(reading.place(key), "one of embedding and output head, read as both (at most)")
    return {quantity: "both"} if names & ENDS else {}


def _frozen(reading: Reading) -> dict[str, Any]:
    """The format of frozen weights: 4 bits (nf4, with scales that may be quantized again), 8 bits, or as the others."""
    quantity = "frozen_weight_format"
    if reading.flag("load_in_8bit", "frozen_weight_precision"):
        _tell(reading, "load_in_8bit", table(COMMON)["eight bits"])
        return {"frozen_weight_precision": 8}
    if not reading.flag("load_in_4bit", quantity):
        return {}
    kind = reading.word("bnb_4bit_quant_type", quantity, "nf4")
    if kind != "nf4":
        reading.defaulted(reading.place("bnb_4bit_quant_type"), f"{kind}: read as nf4, which has the same bytes")
    return {quantity: "nf4_double" if is_on(reading, "use_bnb_nested_quant", quantity) else "nf4"}


def read_batch(reading: Reading) -> dict[str, Any]:
    """Reads the sequences of a micro-batch and the micro-batches of a step; the accelerators say the sequences of a step."""
    size, times = "per_device_train_batch_size", "gradient_accumulation_steps"
    return {
        "microbatch_size": reading.number(size, "microbatch_size", usual(reading, size), least=1),
        "number_of_microbatches_per_minibatch": reading.number(
            times, "number_of_microbatches_per_minibatch", usual(reading, times), least=1
        ),
    }


def read_lengths(reading: Reading) -> dict[str, Any]:
    """Reads the longest sequence as that of every sample, and the steps of the training if they are said."""
    context = reading.number("max_length", "context", usual(reading, "max_length"), least=1)
    is_packed = reading.flag("packing", "context") or reading.flag("padding_free", "context")
    if context is None:
        reading.defaulted(reading.place("max_length"), "no limit: give --seq")
    elif is_packed:
        reading.defaulted(reading.place("packing"), f"packs of {context} tokens, read as one document each")
    else:
        reading.defaulted(reading.place("max_length"), f"every sequence has {context} tokens; shorter ones take less")
    steps = reading.get("max_steps", "number_of_steps")
    if steps in (None, -1):
        reading.defaulted(reading.place("num_train_epochs"), "the data say the steps; give --set tokens_to_train=N")
        return {"context": context}
    return {"context": context, "number_of_steps": whole(steps, reading.place("max_steps"), 1)}


def read_precision(reading: Reading) -> dict[str, Any]:
    """Reads the format of products, and of weights, gradients and states.

    Weights that are loaded in 32 bits stay so. Weights of 16 bits that nobody shards have states of 16 bits, because the
    optimizer keeps states like its weights; FSDP (in accelerate) and DeepSpeed keep states and a copy of weights in 32 bits.
    """
    dtype = str(reading.get("dtype", "weight_precision", usual(reading, "dtype")) or "bfloat16")
    has_half, has_brain = reading.flag("fp16", "matrix_precision"), is_on(reading, "bf16", "matrix_precision")
    single = "tf32" if reading.flag("tf32", "matrix_precision") else "fp32"
    products = {"matrix_precision": "fp16" if has_half else "bf16" if has_brain else single}
    if reading.values["zero_stage"] and not reading.family["states_as_weights"]:
        return products
    if "32" in dtype:
        return {**products, "weight_precision": 32, "gradient_precision": 32}
    are_narrow = reading.family["states_as_weights"] or "adapters" not in reading.values
    return {**products, "optimizer_state_precision": 16} if are_narrow and (has_half or has_brain) else products


def read_optimizer(reading: Reading) -> dict[str, Any]:
    """Reads the optimizer, the bits of its states, when it runs, and whether one kernel updates many weights.

    One that amped does not model is read as Adam, with a line in the report.
    """
    key = "optim"
    name = str(reading.word(key, "optimizer", usual(reading, key)) or "adamw_torch")
    is_fused = reading.flag("optim_fused", "optimizer_traffic_factor") or "fused" in name
    row = next(
        row for row in table(COMMON)["optimizers"] if re.fullmatch(row["names"], name.rpartition(".")[2].lower())
    )
    kind = row.get("is", "")
    try:
        read_value(catalogue()["optimizer"], kind)
    except AmpedError:
        _tell(reading, key, row, name)
        kind = "adam"
    if kind == "adam" and re.search(r"8_?bit", name.lower()):
        kind = "adam_8bit"
    is_early = reading.flag("optimizer_in_bwd", "optimizer_placement")
    early = {"optimizer_placement": "in_backward"} if is_early else {}
    return {"optimizer": kind, **early, **({"optimizer_traffic_factor": 1} if is_fused else {})}


def read_sharding(reading: Reading) -> dict[str, Any]:
    """Reads what replicas share out: by DeepSpeed's section or file, else by FSDP, else nothing."""
    degrees = _degrees(reading)
    sharding = _of_deepspeed(reading) or _of_fsdp(reading)
    if not sharding and degrees.pop("is_sharded", False):
        sharding = {"zero_stage": 3, "overlap_data_communication": True}
    degrees.pop("is_sharded", None)
    return {"zero_stage": 0, **degrees, **sharding}


def _degrees(reading: Reading) -> dict[str, Any]:
    """The accelerators and the sharding degree, if the file says how many replicas there are."""
    shard = reading.number(f"{P}dp_shard_size", "sharding_degree", least=1)
    copies = reading.number(f"{P}dp_replicate_size", "sharding_degree", 1, least=1)
    if shard is None and copies == 1:
        reading.defaulted("", "the launcher says the number of accelerators; give --gpus")
        return {}
    shard = shard or 1
    return {
        "is_sharded": shard > 1,
        "number_of_accelerators": shard * copies * reading.accelerators_of_a_replica,
        "sharding_degree": shard if copies > 1 and shard > 1 else None,
    }


def _of_deepspeed(reading: Reading) -> dict[str, Any]:
    """What DeepSpeed's section says, or its file if that lies beside this one; else what the name of the file says."""
    section = {key.removeprefix(Z): reading.get(key, "zero_stage") for key in reading.raw if key.startswith(Z)}
    path = reading.word("deepspeed", "zero_stage")
    if path is not None and not section:
        file = _beside(reading.family["file"], path)
        if file is None:
            return _of_name(reading, path)
        section = flat(read_json(file))
    if not section:
        return {}
    inner = Reading(section, {key: f"{reading.place('deepspeed')}: {key}" for key in section})
    origins = read_keys(deepspeed.FORM, inner, deepspeed.RULES, key_in_file=inner.place)
    reading.report.unsupported += inner.report.unsupported
    names = {"zero_stage", "optimizer_offload", "weight_offload", "overlap_data_communication", "sharding_degree"}
    return {name: inner.values[name] for name in names & origins.keys()}


def _of_name(reading: Reading, path: str) -> dict[str, Any]:
    """The ZeRO stage that the name of a missing file of DeepSpeed's says; a name without a stage is reported."""
    match = re.search(r"z(?:ero)?[_-]?([0-3])", Path(path).name.lower())
    key = reading.place("deepspeed")
    if match is None:
        reading.unsupported(key, f"{path} is not beside the file, and its name says no stage; give --set zero_stage=N")
        return {}
    reading.defaulted(key, f"{path} is not beside the file; its name says ZeRO {match[1]}")
    share = 1.0 if "offload" in path.lower() else 0.0
    return {"zero_stage": int(match[1]), "optimizer_offload": share}


def _beside(file: str, path: str) -> Path | None:
    """The file that a path means: by itself, or beside a file or above it; None if there is none."""
    wanted, here = Path(path).expanduser(), Path(file).expanduser().resolve()
    places = [wanted, *(folder / wanted for folder in here.parents[:4])]
    return next((place for place in places if is_file(place)), None)


def _of_fsdp(reading: Reading) -> dict[str, Any]:
    """What FSDP's keys say: whole weights are gathered and freed (ZeRO 3) or kept (ZeRO 2), in all replicas or in groups."""
    words = reading.words("fsdp", "zero_stage", usual(reading, "fsdp") or "")
    by_key = reading.word(f"{F}sharding_strategy", "zero_stage", "").lower()
    reshards = reading.get(f"{F}reshard_after_forward", "zero_stage")
    is_offloaded = reading.flag(f"{F}offload_params", "optimizer_offload") or "offload" in words
    version = reading.get(f"{F}version", "zero_stage")
    if not words and not by_key and reshards is None and version is None:
        return {}
    text = " ".join((*words, by_key, str(reshards))).lower()
    if "hybrid" in text:
        reading.defaulted(reading.place("fsdp"), "hybrid: each node is a copy; give --set sharding_degree=N")
    stage = 0 if "no_shard" in text else 2 if "shard_grad_op" in text or "false" in text else 3
    shares = dict.fromkeys(("optimizer_offload", "weight_offload"), 1.0) if is_offloaded else {}
    return {"zero_stage": stage, "overlap_data_communication": True, **shares}


def read_memory(reading: Reading) -> dict[str, Any]:
    """Reads which layers run again in the backward pass, and whether activations wait on the host."""
    quantity = "activation_recomputation"
    is_again = reading.flag(f"{F}activation_checkpointing", quantity)
    is_again = is_on(reading, "gradient_checkpointing", quantity) or is_again
    share = float(reading.flag("activation_offloading", "activation_offload"))
    every = reading.number("checkpointed_layers", quantity, 1, least=1)
    offload = {"activation_offload": share}
    if not is_again or every == 1:
        return {quantity: "full" if is_again else "none", **offload}
    if layers := reading.family["columns"].get("layers"):
        return {quantity: "block", "number_of_recomputed_layers": -(-int(layers) // every), **offload}
    reading.unsupported(
        reading.place("checkpointed_layers"), f"one layer of {every} runs again, read as all: give --model"
    )
    return {quantity: "full", **offload}


def read_kernels(reading: Reading) -> dict[str, Any]:
    """Reads whether attention is one fused kernel, and how the loss treats its logits."""
    attention = reading.word("attn_implementation", "flash_attention", "sdpa")
    is_fused = reading.flag("use_liger_kernel", "fused_cross_entropy")
    copies = reading.number("loss_copies", "cross_entropy_copies")
    loss = {"fused_cross_entropy": True, "cross_entropy_copies": 0} if is_fused else {"cross_entropy_copies": copies}
    if is_fused:
        _tell(reading, "use_liger_kernel", table(COMMON)["logits in pieces"])
    return {"flash_attention": attention != "eager", **loss}


def read_clipping(reading: Reading) -> dict[str, Any]:
    """Reads whether gradients are clipped: unless the largest norm is 0 or not said where the format says none."""
    norm = reading.get("max_grad_norm", "gradient_clipping", usual(reading, "max_grad_norm"))
    return {"gradient_clipping": bool(norm)}


READERS = {
    "sharding": read_sharding, "adapters": read_adapters, "batch": read_batch, "lengths": read_lengths,
    "precision": read_precision, "optimizer": read_optimizer, "memory": read_memory, "kernels": read_kernels,
    "clipping": read_clipping,
}  # fmt: skip


def named(form: str, saved: Mapping[str, Any], file: str) -> Reading:
    """A file with the keys of Hugging Face's trainers instead of its own.

    Args:
        form: the format.
        saved: the keys of the file, dotted.
        file: the path of the file.
    """
    own = table(form)
    names: dict[str, str] = own["names"]
    fields = {names.get(key, key): value for key, value in saved.items() if value is not None}
    said = {names[key]: key for key, value in saved.items() if key in names and value is not None}
    places = {theirs: key for key, theirs in names.items()} | said
    report, idle = Report(), list[str]()
    for key, pattern, meant in own["words"]:
        match = re.fullmatch(pattern, _as_text(saved.get(key)))
        if match is None or saved.get(key) is None:
            continue
        fields.pop(key, None)
        new = {name: word for name, word in meant.items() if said.get(name, key) == key}
        fields |= {name: match.expand(word) if isinstance(word, str) else word for name, word in new.items()}
        places |= dict.fromkeys(new, key)
        idle += [] if meant else [key]
    if idle:
        report.ignored.append(ReportLine(", ".join(idle), "without effect at this value"))
    family = {name: own.get(name, False) for name in ("usual", "title", "states_as_weights")}
    return Reading(fields, places, report=report, family={**family, "file": file})


def _as_text(value: Any) -> str:
    """A value as text, for patterns: the entries of a list with blanks between them, and nothing for no value."""
    return " ".join(map(str, value)) if isinstance(value, list) else "" if value is None else str(value)


def read(form: str, saved: Mapping[str, Any], file: str, known: Mapping[str, Any] | None = None) -> Imported:
    """The fine-tuning that a file describes.

    Args:
        form: the format.
        saved: the keys of the file, dotted.
        file: the path of the file.
        known: values of the network by quantity, if another part of the file says it.

    Raises:
        ConfigError: for wrong values, with their keys.
    """
    own, reading = table(form), named(form, saved, file)
    network, columns = _network(reading, file) if known is None else (None, known)
    reading = replace(reading, family={**reading.family, "columns": columns})
    is_compiled = reading.flag("torch_compile", "software")
    rules = {name: rule for name, rule in _RULES.items() if name in own.get("rules", _RULES)}
    origins = read_keys(FORM, reading, rules, key_in_file=reading.place, tables=form)
    name = str(reading.raw[MODEL]) if network else file
    report = reading.report
    report.used[:] = _by_key(report.used)
    software = own.get("compiled" if is_compiled else "software")
    return Imported(form, file, name, reading.values, origins, report, software, network)


def _by_key(lines: Sequence[ReportLine]) -> list[ReportLine]:
    """One line for each key of a file, with all quantities that come from it."""
    quantities = dict[str, list[str]]()
    for line in lines:
        quantities.setdefault(line.key, []).append(line.what)
    return [ReportLine(key, ", ".join(names)) for key, names in quantities.items()]


_RULES = {name: Rule(reader) for name, reader in READERS.items()}


def _network(reading: Reading, file: str) -> tuple[str | Imported | None, Mapping[str, Any]]:
    """The network that a file names, and its values: a folder with a config.json, or a row of the table; else none.

    Without one, the report asks for it.
    """
    name = reading.word(MODEL, "model")
    if name is None:
        reading.report.defaulted.append(NO_SIZES)
        return None, {}
    folder = _beside(file, str(Path(name) / CONFIG))
    if folder is not None:
        network = huggingface.read(parse_json(read_text(folder), str(folder), by_python=True), str(folder))
        return network, network.values
    tables = user_tables()
    row = tables.meant(MODELS, name)
    if not tables.has(MODELS, row):
        reading.report.defaulted.append(
            ReportLine(reading.place(MODEL), f"{name} is no row of amped's; {NO_SIZES.what}")
        )
        return None, {}
    found = tables.row(MODELS, row)
    return found.name, found.columns


def with_adapters(training: Imported, form: str, saved: Mapping[str, Any]) -> Imported:
    """A training with the adapters of the section `peft` in its file, if it has one.

    Args:
        training: the training of the other sections.
        form: the name of the table of the section.
        saved: the keys of the file, dotted.
    """
    section = {key: value for key, value in saved.items() if key.startswith("peft.") and value is not None}
    if not section:
        return training
    adapters = read(form, section, training.file, training.values)
    for (_, lines), (_, more) in zip(training.report.groups(), adapters.report.groups(), strict=True):
        lines += more
    values, origins = {**training.values, **adapters.values}, {**training.origins, **adapters.origins}
    return replace(training, values=values, origins=origins)


def read_yaml(form: str, text: str, file: str) -> Imported:
    """The fine-tuning that a YAML file of a format describes."""
    return read(form, flat(parse_yaml(text)), file)


def read_object(form: str, raw: Mapping[str, Any], file: str) -> Imported:
    """The fine-tuning that a JSON file of a format describes."""
    return read(form, flat(raw), file)


FORMS = ("torchtune", "axolotl", "llamafactory", FORM)
YAML = {form: partial(read_yaml, form) for form in FORMS}
OBJECT = {form: partial(read_object, form) for form in ("peft", FORM)}
