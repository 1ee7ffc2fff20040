"""One question has one answer, whoever asks: `estimate`, a row of `validate`, `explore`, the page, and Python."""

import json
import random
from pathlib import Path
from typing import Any

import pytest

import amped
from amped.drafting.chooser import MAPPED
from amped.exploration.search_space import SPACES
from tests.helpers.cli import printed
from tests.helpers.validation import table

pytest.importorskip("starlette")

from amped.web.answers import Desk

FEW, MANY = 5, 12
MODELS = ("Llama 3 8B", "Llama 2 13B", "Llama 3 70B", "Mixtral 8x7B", "Qwen3 30B-A3B")
SYSTEMS = ("DGX H100", "DGX A100", "DGX B200", "GB200 NVL72")
# What a log may say of a run beside its network and its machine, each with what is drawn; half of the cells are blank.
DRAWN: dict[str, tuple[object, ...]] = {
    "tp": (1, 2, 4), "pp": (1, 2), "mbs": (1, 2), "gbs": (256, 512), "seq": (4096, 8192), "zero": (0, 1),
    "recompute": ("none", "full"), "software": ("Megatron-Bridge", "Megatron-Core", "PyTorch"),
    "precision": ("bf16", "bf16", "fp8"),
}  # fmt: skip
# What only one of the two ways of asking has: columns of a row that was searched, and what was written on the command line.
COMPARED = ("step_time", "memory_per_accelerator_bytes", "tokens_per_second_per_accelerator", "model_flops_utilization")


def drawn(number: int) -> dict[str, str]:
    """The words of a recipe."""
    draw = random.Random(number)
    words: dict[str, object] = {
        "model": draw.choice(MODELS), "system": draw.choice(SYSTEMS), "gpus": draw.choice((16, 32, 64)),
    }  # fmt: skip
    words |= {name: draw.choice(values) for name, values in DRAWN.items() if draw.random() < 0.5}
    if words["system"] == "DGX A100":
        words.pop("precision", None)
    return {name: str(value) for name, value in words.items()}


def numbers(of: Any) -> dict[str, float]:
    return {name: float(of[name]) for name in COMPARED}


def explored(words: dict[str, str]) -> dict[str, float]:
    """The only candidate of a search in which all is given that the estimate takes."""
    e = amped.estimate(**words)
    # Degrees that a network does not have are 1; and where nothing fits, a search would also try what saves memory.
    ones = {name: 1 for name in MAPPED if name not in SPACES["default"].policies}
    saving = {name: e[name] for name in SPACES["memory"].policies if name in e}
    whole = ones | saving | dict(e.scenario.question.overrides)
    options = [option for name, value in whole.items() for option in ("--set", f"{name}={value}")]
    found = json.loads(printed("explore", *options, "--top", "1", "--json"))
    assert found["candidates"] == 1
    return numbers(found["best"][0])


def check(folder: Path, count: int) -> None:
    recipes = [drawn(number) for number in range(count)]
    estimates = [json.loads(printed("estimate", *asked_by_options(words), "--json")) for words in recipes]
    rows = [words | {"id": f"{i}", "step_time": 1, "peak_memory": 1e9} for i, words in enumerate(recipes)]
    validated = json.loads(printed("validate", "--table", str(table(folder, *rows)), "--json"))["rows"]
    of_rows = {(row["id"], row["quantity"]): row["predicted"] for row in validated}
    desk = Desk()
    for i, (words, told) in enumerate(zip(recipes, estimates, strict=True)):
        for name in COMPARED[:2]:
            assert of_rows[f"{i}", name] == told[name], (words, name)
        assert numbers(amped.estimate(**words)) == numbers(told), words
        assert numbers(desk.estimation(words)) == numbers(told), words
        assert explored(words) == numbers(told), words


def asked_by_options(words: dict[str, str]) -> list[str]:
    return [option for name, value in words.items() for option in (f"--{name}", value)]


def test_a_few_recipes_have_one_answer(tmp_path):
    check(tmp_path, FEW)


@pytest.mark.thorough
def test_many_recipes_have_one_answer(tmp_path):
    check(tmp_path, MANY)
