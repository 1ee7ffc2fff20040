"""Which format a file has, by its content; and the reading of any of them."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Generic, NamedTuple, TypeVar

from amped.base.commands import command
from amped.base.errors import AmpedError, FileError, Problem, quoted
from amped.base.files import is_file, is_folder, parse_json, read_text
from amped.interop import CONFIG, automodel, bridge, deepspeed, finetuning, huggingface, megatron, peers, torchtitan
from amped.interop.records import Imported
from amped.theory.language.quantity import CATEGORIES

# A config that a person or a framework wrote is far smaller; a log may be cut to the block of its arguments.
LARGEST_BYTES = 5_000_000


Content = TypeVar("Content")


class Form(NamedTuple, Generic[Content]):
    """A format that amped reads.

    Attributes:
        title: the name in messages.
        fits: whether a text or a JSON object is of this format.
        read: the imported file, from its content and its path.
    """

    title: str
    fits: Callable[[Content], bool]
    read: Callable[[Content, str], Imported]


def _has_key(*names: str) -> Callable[[Mapping[str, Any]], bool]:
    """A function that tells whether a JSON object has at least one of some keys."""
    return lambda raw: any(name in raw for name in names)


# The formats that are JSON objects, the surest marks first.
OBJECTS: dict[str, Form[Mapping[str, Any]]] = {
    "simumax": Form("SimuMax's networks and strategies", _has_key("layer_num", "micro_batch_num"), peers.read_simumax),
    "calculon": Form(
        "Calculon's applications and executions", _has_key("num_blocks", "tensor_par"), peers.read_calculon
    ),
    "llm-analysis": Form("llm-analysis's networks", _has_key("hidden_dim"), peers.read_llm_analysis),
    "peft": Form("PEFT's adapter_config.json", _has_key("peft_type"), finetuning.OBJECT["peft"]),
    "trl": Form(
        "TRL's and transformers' training arguments, JSON and YAML",
        _has_key("per_device_train_batch_size", "model_name_or_path"),
        finetuning.OBJECT["trl"],
    ),
    "hf": Form(
        "Hugging Face config.json",
        _has_key("model_type", "architectures", "num_hidden_layers", "text_config"),
        huggingface.read,
    ),
    "deepspeed": Form(
        "DeepSpeed JSON",
        _has_key("zero_optimization", "train_micro_batch_size_per_gpu", "train_batch_size"),
        deepspeed.read,
    ),
    "torchtitan": Form("torchtitan's saved configs", _has_key("parallelism"), torchtitan.read),
}


def _is_launch(text: str) -> bool:
    """Whether a text has the launch of a Megatron-LM training, or the arguments that Megatron-LM prints in a log."""
    return megatron.LAUNCH in text or megatron.is_log(text)


def _has_line_with(*starts: str) -> Callable[[str], bool]:
    """A function that tells whether a text has a line that begins with one of some words."""
    return lambda text: any(line.startswith(starts) for line in text.splitlines())


# The formats that are text, the surest marks first.
TEXTS: dict[str, Form[str]] = {
    "megatron": Form("Megatron-LM scripts, argument lists and logs", _is_launch, megatron.read),
    "torchtitan": Form("torchtitan TOML", _has_line_with("[parallelism]", "[training]"), torchtitan.read_toml),
    "torchtune": Form("torchtune YAML", lambda text: "_component_:" in text, finetuning.YAML["torchtune"]),
    "axolotl": Form("Axolotl YAML", _has_line_with("base_model:"), finetuning.YAML["axolotl"]),
    "llamafactory": Form(
        "LLaMA-Factory YAML",
        _has_line_with("finetuning_type:", "cutoff_len:", "stage:"),
        finetuning.YAML["llamafactory"],
    ),
    "trl": Form(
        "TRL's and transformers' training arguments, JSON and YAML",
        _has_line_with("model_name_or_path:", "per_device_train_batch_size:"),
        finetuning.YAML["trl"],
    ),
    "automodel": Form("NeMo AutoModel YAML", _has_line_with("step_scheduler:", "distributed:"), automodel.read),
    "bridge": Form("Megatron-Bridge YAML", _has_line_with("model:"), bridge.read),
}
FORMATS = tuple(dict.fromkeys((*OBJECTS, *TEXTS)))


def read_file(path: Path, form: str | None = None) -> Imported:
    """The network or the training that a file of another tool describes, by amped's names.

    Args:
        path: the file, or a folder with a config.json.
        form: the format, one of `FORMATS`; None: it is recognized by its content.

    Raises:
        FileError: for a file that is missing, too large or of no known format.
        ConfigError: for wrong values.
    """
    path = path / CONFIG if is_folder(path) else path
    try:
        return _read(path, form)
    except AmpedError as error:
        raise type(error)(error.problems, file=error.file or str(path)) from None


def _read(path: Path, form: str | None) -> Imported:
    """The imported file. An error about a wrong value does not name the file; the caller adds the path.

    Raises:
        FileError: for a file that is missing, too large or of no known format.
    """
    text = _read_text(path)
    if form is not None and form not in FORMATS:
        raise FileError(f"--from {quoted(form)} is no format", f"there are {', '.join(FORMATS)}")
    if text.lstrip()[:1] == "{" or (form in OBJECTS and form not in TEXTS) or (form is None and _is_json(text)):
        return _read_object(parse_json(text, str(path), by_python=True), str(path), form)
    name = form or _format_of(TEXTS, text)
    if name is None:
        raise FileError(Problem("is of no format that amped knows", "line 1", f"{_formats()}; --from names one"))
    return TEXTS[name].read(text, str(path))


def _format_of(forms: Mapping[str, Form[Content]], content: Content) -> str | None:
    """The name of the first format to which a text or a JSON object belongs; None if there is none."""
    return next((name for name, form in forms.items() if form.fits(content)), None)


def _is_json(text: str) -> bool:
    """Whether a text is meant as JSON: it begins with the bracket of a list, and not with a section of TOML."""
    start = text.lstrip()
    return start[:1] == "[" and not start[1:2].isalpha()


def _read_text(path: Path) -> str:
    """The text of a file.

    Raises:
        FileError: if the file is larger than LARGEST_BYTES.
    """
    if is_file(path) and path.stat().st_size > LARGEST_BYTES:
        what = f"is larger than {LARGEST_BYTES // 10**6} MB, and no config is"
        raise FileError(what, "cut a log to its block of arguments")
    return read_text(path)


def _read_object(raw: object, file: str, form: str | None) -> Imported:
    """The imported content of a JSON file.

    Raises:
        FileError: if it is no object, a config of amped, or of no format that amped knows.
    """
    if not isinstance(raw, Mapping):
        raise FileError(f"line 1: is {quoted(raw)}, not an object", _formats())
    if form is None and any(category in raw for category in CATEGORIES):
        raise FileError("is a config of amped already", command("estimate", "--config", file))
    if form is not None and form not in OBJECTS:
        raise FileError(Problem(f"is JSON, and {form} is not", "line 1"))
    name = form or _format_of(OBJECTS, raw)
    if name is None:
        keys = ", ".join(map(json.dumps, list(raw)[:5])) or "nothing"
        raise FileError(f"is of no format that amped knows: it has {keys}", f"{_formats()}; --from names one")
    return OBJECTS[name].read(raw, file)


def _formats() -> str:
    """The sentence that lists all formats that amped reads."""
    titles = [*(form.title for form in OBJECTS.values()), *(form.title for form in TEXTS.values())]
    return f"amped reads {', '.join(titles)}"
