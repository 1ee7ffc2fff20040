"""The README's output is what the commands print, and its commands are commands."""

import re
import shlex
from pathlib import Path

import pytest
from typer.testing import CliRunner

import amped
from amped.cli.app import app

ROOT = Path(__file__).resolve().parent.parent
README = (ROOT / "README.md").read_text("utf-8")
RUNS = [
    line.split("#")[0].split(">")[0].strip()
    for block in re.findall(r"```bash\n(.*?)```", README, re.S)
    for line in block.splitlines()
    if line.startswith("amped ")
]


def block_after(mark):
    return README.split(f"<!-- {mark} -->")[1].split("```")[1].partition("\n")[2].rstrip("\n")


@pytest.mark.parametrize("command", ["amped estimate", "amped estimate --layers"])
def test_the_printed_output_is_real(command, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    lines = [line.rstrip() for line in CliRunner().invoke(app, command.split()[1:]).stdout.splitlines()]
    printed = "\n".join(line for line in lines if not line.startswith("written")).rstrip()
    assert printed == block_after(f"output of: {command}")


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """One folder for all commands, as a reader has."""
    made = tmp_path_factory.mktemp("readme")
    (made / "my.json").write_bytes((ROOT / "configs" / "minimal.json").read_bytes())
    return made


@pytest.mark.parametrize("command", RUNS)
def test_the_commands_run(command, folder, monkeypatch):
    monkeypatch.chdir(folder)
    done = CliRunner().invoke(app, shlex.split(command)[1:], catch_exceptions=False)
    assert done.exit_code == 0


def test_the_ten_lines_are_the_shipped_config():
    assert (ROOT / "configs" / "minimal.json").read_text().strip() in README


def megatron(accelerators, batch, tensor, pipeline, chunks, microbatch):
    return {
        "number_of_accelerators": accelerators, "batch_size": batch, "tensor_parallel_degree": tensor,
        "pipeline_parallel_degree": pipeline, "virtual_pipeline_stages": chunks, "microbatch_size": microbatch,
    }  # fmt: skip


GPT_22B = {"model": "Megatron 22B"} | megatron(8, 4, 8, 1, 1, 4)
LAYER = GPT_22B | {"layers": 1, "vocabulary_size": 0, "optimizer": "none"}
FULL, SELECTIVE, NONE = ({"activation_recomputation": mode} for mode in ("full", "selective", "none"))
SEQUENCE = {"sequence_parallel": True}
PUBLISHED = {
    "GPT 1.7B, 32 GPUs": {"model": "Megatron 1.7B"} | megatron(32, 512, 1, 1, 1, 16),
    "GPT 3.6B, 64 GPUs": {"model": "Megatron 3.6B"} | megatron(64, 512, 2, 1, 1, 16),
    "GPT 7.5B, 128 GPUs": {"model": "Megatron 7.5B"} | megatron(128, 512, 4, 1, 1, 16),
    "GPT 18.4B, 256 GPUs": {"model": "Megatron 18.4B"} | megatron(256, 1024, 8, 1, 1, 8),
    "GPT 76.1B, 1024 GPUs": {"model": "Megatron 76.1B"} | megatron(1024, 1792, 8, 4, 3, 2),
    "GPT 310.1B, 1920 GPUs": {"model": "Megatron 310.1B"} | megatron(1920, 2160, 8, 16, 2, 1),
    "GPT 22B, full recomputation": GPT_22B | FULL,
    "GPT 22B, selective, sequence parallel": GPT_22B | SELECTIVE | SEQUENCE,
    "one layer of it, no recomputation": LAYER | NONE,
    "one layer of it, sequence parallel": LAYER | NONE | SEQUENCE,
    "one layer of it, full recomputation": LAYER | FULL,
    "one layer of it, selective": LAYER | SELECTIVE,
    "one layer of it, selective, sequence parallel": LAYER | SELECTIVE | SEQUENCE,
}


@pytest.mark.parametrize("name", PUBLISHED)
def test_the_table_of_accuracy_is_real(name):
    row = next(line for line in README.splitlines() if line.startswith(f"| {name} |"))
    measured, shown, error = (cell.strip() for cell in row.split("|")[2:5])
    unit = {"s": 1.0, "ms": 1e-3}[measured.split()[1]]
    seconds = amped.estimate(**PUBLISHED[name])["step_time"]
    assert shown == f"{seconds / unit:.4g} {measured.split()[1]}"
    signed = (seconds / unit / float(measured.split()[0]) - 1) * 100
    assert float(error.strip(" %").replace("−", "-")) == pytest.approx(signed, abs=0.06)
    assert abs(signed) < 10
