"""Every value of every example file is replaced by wrong ones: a message names the file and the field, and nothing else happens.

The examples are those of the other tests of this room, what amped writes for the frameworks, and configs of transformers.
"""

import json
from pathlib import Path
from typing import Any

import pytest

from amped.base.errors import AmpedError
from amped.configuring.scenario import read_scenario
from amped.estimation.estimation import estimated
from amped.interop import bridge
from amped.interop.exporting import TARGETS
from amped.interop.records import Imported
from amped.interop.sections import nested
from tests.helpers.interop import default_of
from tests.helpers.nasty import (
    NO_COUNTS,
    NO_SWITCHES,
    Example,
    Place,
    asked_names,
    became,
    of_log,
    of_object,
    of_script,
    of_toml,
    of_yaml,
)  # fmt: skip
from tests.interop import test_megatron, test_peers, test_sections
from tests.interop.test_huggingface import LLAMA


def written(form: str, **mapping: object) -> str:
    """What amped writes in a format for a network with experts."""
    e = estimated(read_scenario("mixtral-8x7b", mapping))
    return json.dumps(nested(TARGETS[form].fields(e).fields)) if form == "torchtitan" else TARGETS[form].write(e)


REAL = (
    "deepseek_v3",
    "gemma3_text",
    "gpt_oss",
    "qwen3_moe",
    "t5",
    "falcon",
    "mpt",
    "opt",
    "vit",
    "gpt_neo",
    "llama4_text",
)
EXAMPLES = {
    "Hugging Face": lambda: of_object(LLAMA), **{name: lambda name=name: of_object(default_of(name)) for name in REAL},
    "a language model in a larger one": lambda: of_object({"model_type": "llava", "text_config": LLAMA}),
    "Megatron-LM, script": lambda: of_script(test_megatron.SCRIPT), "Megatron-LM, log": lambda: of_log(test_megatron.LOG),
    "Megatron-Bridge": lambda: of_yaml(test_sections.BRIDGE),
    "torchtitan, TOML": lambda: of_toml(test_sections.TOML), "torchtitan, main": lambda: of_object(test_sections.MAIN),
    "torchtitan, written": lambda: of_object(json.loads(written("torchtitan"))),
    "DeepSpeed": lambda: of_object(test_sections.DEEPSPEED), "DeepSpeed, written": lambda: of_object(json.loads(written("deepspeed"))),
    "AutoModel": lambda: of_yaml(test_sections.AUTOMODEL), "AutoModel, written": lambda: of_yaml(written("automodel")),
    "SimuMax, network": lambda: of_object(test_peers.NETWORK), "SimuMax, strategy": lambda: of_object(test_peers.STRATEGY),
    "Calculon, application": lambda: of_object(test_peers.APPLICATION), "Calculon, execution": lambda: of_object(test_peers.EXECUTION),
    "llm-analysis": lambda: of_object(test_peers.LLM_ANALYSIS),
}  # fmt: skip


def checked(example: Example, place: Place, value: Any, file: Path) -> Imported | AmpedError:
    """A file with one value changed is read, or refused with its name and the field or the line; another error fails the test."""
    found = became(example.changed(place, value), file)
    if isinstance(found, AmpedError):
        told = str(found)
        named = place[-1] in told or place[-1].replace("_", "-") in told or "line " in told or "has no " in told
        assert (found.file, named) == (str(file), True), (place, str(value)[:50], told)
    return found


@pytest.mark.thorough
@pytest.mark.parametrize("name", EXAMPLES)
def test_a_wrong_value_is_read_or_refused_with_its_place(name: str, tmp_path: Path) -> None:
    """Each place has a third of the values, by turns."""
    example, file = EXAMPLES[name](), tmp_path / "file"
    for turn, place in enumerate(example.places):
        for value in example.values[turn % 3 :: 3]:
            checked(example, place, value, file)


@pytest.mark.thorough
@pytest.mark.parametrize("name", EXAMPLES)
def test_a_wrong_value_of_any_key_that_an_importer_knows(name: str, tmp_path: Path) -> None:
    """Keys that the example has not are added to it; where they stand in the file is what the importer says."""
    example, file = EXAMPLES[name](), tmp_path / "file"
    places = bridge.places() if "Bridge" in name else {}
    for turn, asked in enumerate(asked_names(example, file)):
        place = tuple(places.get(asked, asked).lstrip("-").split("."))
        for value in example.values[turn % 6 :: 6]:
            checked(example, place, value, file)


@pytest.mark.thorough
@pytest.mark.parametrize("name", [name for name in EXAMPLES if not name.startswith(("Megatron-LM", "Slurm"))])
def test_a_count_and_a_switch_take_nothing_else(name: str, tmp_path: Path) -> None:
    """Where the right file has a whole number or a switch that amped uses, nothing of another kind is taken for it."""
    example, file = EXAMPLES[name](), tmp_path / "file"
    right = became(example.text, file)
    assert isinstance(right, Imported)
    used = {line.key for line in right.report.used}
    for place, value in example.places.items():
        kind = NO_SWITCHES if isinstance(value, bool) else NO_COUNTS if isinstance(value, int) else ()
        if ".".join(place) in used:
            for wrong in kind:
                found = checked(example, place, wrong, file)
                assert isinstance(found, AmpedError), (place, wrong)
