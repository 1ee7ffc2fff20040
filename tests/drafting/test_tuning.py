"""`amped tune`: ways to fine-tune side by side, and what would make those fit that do not."""

import json
import shlex
from pathlib import Path

import pytest

from amped.base.errors import AmpedError
from amped.drafting.asking import Asking
from amped.drafting.tuning import METHODS, Way, tuned
from tests.helpers.cli import amped as run

ONE_CARD: dict[str, object] = {"model": "Llama 3.2 3B", "accelerator": "RTX 4090", "number_of_accelerators": 1}


def ways(*methods: str, epochs: float = 1.0, **more: object) -> dict[str, Way]:
    """The ways to fine-tune a network of 3 billion on one card of 24 GB, by method."""
    return {way.method: way for way in tuned(Asking(None, ONE_CARD | more), methods, epochs)}


@pytest.mark.thorough
def test_what_fits_comes_first_and_what_does_not_says_what_would() -> None:
    found = ways("full", "lora", "qlora", optimizer_offload=0)
    assert [way.fits for way in found.values()] == [True, True, False]
    assert found["full"].remedy == "fits on 4 of these accelerators"
    more = Asking(None, ONE_CARD | {"number_of_accelerators": 4}).completed({**found["full"].settings})
    assert more.sources.given["number_of_accelerators"] == 4


@pytest.mark.thorough
def test_full_training_fits_one_card_with_its_states_on_the_host() -> None:
    full = ways("full")["full"]
    assert full.fits
    assert full.estimate["optimizer_offload"] == 1


@pytest.mark.thorough
def test_all_ways_train_on_the_same_tokens_in_the_same_batches() -> None:
    found = ways(*METHODS, optimizer_offload=0)
    assert len({(way.estimate["batch_size"], way.estimate["tokens_to_train"]) for way in found.values()}) == 1
    memory = {name: way.estimate["memory_per_accelerator_bytes"] for name, way in found.items()}
    assert memory["qlora"] < memory["lora"] < memory["full"]


def test_documents_say_how_much_is_trained_on(tmp_path: Path) -> None:
    path = tmp_path / "lengths.csv"
    path.write_text("length\n" + "\n".join(["500"] * 300 + ["1500"] * 100), "utf-8")
    found = ways("lora", epochs=2.0, lengths=str(path))["lora"].estimate
    assert found["tokens_to_train"] == 2 * (300 * 500 + 100 * 1500)
    assert found["sequence_fill"] < 1
    assert found["training_time"] == pytest.approx(
        found["number_of_steps"] * found["step_time"] / found["goodput_fraction"]
    )


def test_what_is_given_stands_above_a_method() -> None:
    assert ways("lora", frozen_weight_format="nf4")["lora"].estimate.choices["frozen_weight_format"] == "nf4"
    assert ways("lora", batch_size=16)["lora"].estimate["batch_size"] == 16


@pytest.mark.parametrize(
    ("methods", "epochs", "message"),
    [
        (("lorra",), 1.0, "no way to fine-tune called lorra"),
        (("lora",), 3.0, "3 epochs of data whose size is not known"),
    ],
)
def test_wrong_questions_are_told(methods: tuple[str, ...], epochs: float, message: str) -> None:
    with pytest.raises(AmpedError, match=message):
        ways(*methods, epochs=epochs)


QUESTIONS = {
    "a 3B on a card": ("--model", "Llama 3.2 3B", "--accelerator", "RTX 4090", "--gpus", 1),
    "an 8B on two cards": ("--model", "Llama 3.1 8B", "--accelerator", "RTX A6000", "--gpus", 2),
    "a 70B on a node": ("--model", "Llama 3.1 70B", "--system", "DGX H100", "--gpus", 8),
    "a mixture on two nodes": ("--model", "Qwen3 30B-A3B", "--accelerator", "H200 SXM", "--gpus", 16),
    "a long context": ("--model", "Llama 3.1 8B", "--system", "DGX H100", "--gpus", 8, "--seq", 131072),
}
FIRST = "a 3B on a card"


@pytest.mark.parametrize(
    "question", [FIRST, *(pytest.param(q, marks=pytest.mark.thorough) for q in QUESTIONS if q != FIRST)]
)
def test_five_questions_are_answered_on_one_screen(question: str, tmp_path: Path) -> None:
    done = run("tune", *QUESTIONS[question], folder=tmp_path, columns=80)
    assert done.returncode == 0, done.stderr
    lines = done.stdout.splitlines()
    assert len(lines) <= 24
    assert max(map(len, lines)) <= 80
    assert "Fastest that fits: " in done.stdout


@pytest.mark.thorough
def test_the_printed_command_gives_the_same_time(tmp_path: Path) -> None:
    asked = ("tune", *QUESTIONS["a 3B on a card"], "--method", "lora", "--data", "mean 500, p95 1500")
    best = json.loads(run(*asked, "--json", folder=tmp_path).stdout)[0]
    text = run(*asked, folder=tmp_path).stdout
    words = shlex.split(text[text.index("amped estimate") :].replace("\\\n", " "))[1:]
    again = json.loads(run(*words, "--json", folder=tmp_path).stdout)
    assert again["step_time"] == pytest.approx(best["results"]["step_time"], rel=1e-12)
    assert best["fits"] is True
