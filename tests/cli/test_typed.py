"""Whatever amped prints to type is typed here, with names and paths that a shell must have quoted."""

import json
import re
import shlex
from pathlib import Path

import pytest

from amped.base.words import answers
from tests.helpers.bench import GPU, needs_torch, planted, record, result
from tests.helpers.cli import amped
from tests.kernels.bench.test_fit import COPIES, PRODUCTS, TRUTH
from tests.kernels.bench.test_links import measured_by_hand

MODEL = ("--model", "Llama 3 8B", "--gpus", 16)
# A command of amped's in what it prints: to the end of its line or of its backquotes, and lines that go on after a backslash.
COMMAND = re.compile(r"(?:^|[\s`])(amped [a-z-]+ (?:[^`\n\\]|\\\n)*[^`\n\\;])")
OPTION = re.compile(r"--set (?:'[^']*'|\S+)")
ODD = 'my "chip", No. 1'
TABLE = {
    "accelerator_specifications": {ODD: {"extends": "H100 SXM", "aliases": []}},
    "system_specifications": {f"{ODD} x 8": {"extends": "DGX H100", "accelerator": ODD, "aliases": []}},
}
HUGGING_FACE = {
    "architectures": ["LlamaForCausalLM"], "model_type": "llama", "hidden_size": 2048, "num_hidden_layers": 16,
    "num_attention_heads": 16, "num_key_value_heads": 8, "intermediate_size": 8192, "vocab_size": 32000,
    "max_position_embeddings": 4096, "tie_word_embeddings": False, "hidden_act": "silu",
}  # fmt: skip


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    found = tmp_path / "my runs"
    (found / "own tables").mkdir(parents=True)
    for table, rows in TABLE.items():
        (found / "own tables" / f"{table}.json").write_text(json.dumps({"table": table, "rows": rows}))
    (found / "my net.json").write_text(json.dumps(HUGGING_FACE))
    return found


def typed(command: str, folder: Path) -> None:
    """Types a command as a shell would read it, and wants an answer."""
    first, *words = shlex.split(command.replace("\\\n", ""))
    assert first == "amped"
    done = amped(*words, folder=folder)
    assert done.returncode == 0, f"{command}\n{done.stderr}"


@pytest.mark.thorough
@pytest.mark.parametrize(
    "words",
    [
        ("init", *MODEL, "-o", "my config.json"),
        ("estimate", "my net.json"),
        ("estimate", "DGX H100"),
        ("estimate", *MODEL, "--full"),
        ("estimate", *MODEL, "--set", "gbs=64,128"),
        ("recommend", "--model", "Llama 3 8B", "--system", "DGX H100", "--deadline", "90 days"),
        ("recommend", "--model", "my net.json", "--system", f"{ODD} x 8", "--lookup-tables", "own tables", "--deadline", "9 days"),
        ("explore", *MODEL, "--space", "quick", "--top", 1, "--save-best", "the best ones"),
        ("compare", "llama-3-70b", "llama-3-70b", "--vary", "gbs=512,1024"),
    ],
    ids=lambda words: " ".join(map(str, words))[:60],
)  # fmt: skip
def test_a_printed_command_runs(words: tuple[object, ...], folder: Path) -> None:
    done = amped(*words, folder=folder)
    commands = COMMAND.findall(done.stdout + "\n" + done.stderr)
    assert commands, done.stdout + done.stderr
    for command in commands:
        typed(command.split(": ")[0].rstrip(" ."), folder)


def used(told: str) -> str:
    """The command that a verb prints to be typed next."""
    (found,) = [line.partition("use it: ")[2] for line in told.splitlines() if "use it: " in line]
    return found


@pytest.mark.thorough
def test_what_a_fit_of_kernels_prints_runs(folder: Path) -> None:
    content = planted([*PRODUCTS, *COPIES], TRUTH, GPU)
    content["device"]["name"] = "NVIDIA H100 80GB HBM3"
    (folder / "my kernels.json").write_text(json.dumps(content))
    words = (
        "bench",
        "fit",
        "my kernels.json",
        "-o",
        "fitted to this, No. 1",
        "--name",
        ODD,
        "--lookup-tables",
        "own tables",
    )
    typed(used(amped(*words, folder=folder).stderr), folder)


@pytest.mark.thorough
def test_what_a_fit_of_links_prints_runs(folder: Path) -> None:
    kernels = [record("copy", seconds=1e-3, rows=1024, columns=1024), record("gemm", seconds=1e-3, m=256, n=256, k=256)]
    content = result([*kernels, *measured_by_hand(2)], name=ODD)
    (folder / "my links.json").write_text(json.dumps(content))
    told = amped("bench", "fit", "my links.json", "-o", "fitted", folder=folder).stderr
    typed(used(told), folder)
    (between,) = re.findall(r"between 2 processes: (.*), or (.*)", told)
    for words in between:
        typed(f"{used(told)} {words}", folder)


@needs_torch
@pytest.mark.thorough
def test_what_an_anchor_prints_runs(folder: Path) -> None:
    anchored = (
        "bench",
        "anchor",
        "--device",
        "cpu",
        "--model",
        "GPT-2 small",
        "--mbs",
        1,
        "--seq",
        32,
        "--seconds",
        0.1,
    )
    next_one = used(amped(*anchored, "-o", "my anchor.json", folder=folder).stderr)
    done = amped(*shlex.split(next_one)[1:], folder=folder)
    assert done.returncode == 0, done.stderr
    rows = shlex.split(done.stderr.split("add it to a question: ")[1].splitlines()[0])
    done = amped("estimate", "--model", "GPT-2 small", "--gpus", 1, *rows, folder=folder)
    assert done.returncode == 0, done.stderr


@pytest.mark.thorough
def test_what_amped_alone_shows_runs(folder: Path) -> None:
    lines = amped(folder=folder).stdout.splitlines()
    commands = [part for line in lines if line.startswith("  amped") for part in line.split("; ")]
    assert len(commands) >= 6
    for command in commands:
        typed(command, folder)


@pytest.mark.thorough
@pytest.mark.parametrize(
    "words",
    [
        ("why", "--model", "Llama 3 70B", "--gpus", 64),
        ("estimate", "--model", "Llama 3 70B", "--gpus", 64, "--tp", 1, "--pp", 1, "--mbs", 4, "--zero", 0),
    ],
    ids=["why", "what makes it fit"],
)
def test_printed_options_are_taken_by_the_same_command(words: tuple[object, ...], folder: Path) -> None:
    told = amped(*words, folder=folder).stdout
    options = OPTION.findall(told)
    assert options, told
    together = [options] if words[0] == "estimate" else [[option] for option in options]
    for each in together:
        done = amped("estimate", *words[1:], *shlex.split(" ".join(each)), folder=folder)
        given_twice = "is given twice" in done.stderr  # the change replaces what an option of this command says
        assert done.returncode == 0 or given_twice, f"{each}\n{done.stderr}"


@pytest.mark.thorough
@pytest.mark.parametrize("options", sorted({answer.options for answer in answers().values() if answer.options}))
def test_what_a_word_leads_to_runs(options: str, folder: Path) -> None:
    if options.startswith("amped "):
        (folder / "runs.csv").write_text(amped("validate", "--template", folder=folder).stdout)
        verb = shlex.split(options)[1]
        assert amped(verb, "--help", folder=folder).returncode == 0
        return
    named = shlex.split(options)
    base = [word for pair in (("--model", "Llama 3 8B"), ("--gpus", "16")) if pair[0] not in named for word in pair]
    typed(f"amped estimate {shlex.join(base)} {options}", folder)
