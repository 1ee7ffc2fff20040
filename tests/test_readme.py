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


def test_the_printed_output_is_real(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    lines = [line.rstrip() for line in CliRunner().invoke(app, ["estimate"]).stdout.splitlines()]
    printed = "\n".join(line for line in lines if not line.startswith("written")).rstrip()
    assert printed == block_after("output of: amped estimate")


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


@pytest.mark.parametrize(
    ("model", "accelerators", "batch", "tensor", "pipeline", "chunks", "microbatch"),
    [
        ("Megatron 1.7B", 32, 512, 1, 1, 1, 16),
        ("Megatron 3.6B", 64, 512, 2, 1, 1, 16),
        ("Megatron 7.5B", 128, 512, 4, 1, 1, 16),
        ("Megatron 18.4B", 256, 1024, 8, 1, 1, 8),
        ("Megatron 76.1B", 1024, 1792, 8, 4, 3, 2),
        ("Megatron 310.1B", 1920, 2160, 8, 16, 2, 1),
    ],
)
def test_the_table_of_accuracy_is_real(model, accelerators, batch, tensor, pipeline, chunks, microbatch):
    rate = amped.estimate(
        model=model, number_of_accelerators=accelerators, batch_size=batch, tensor_parallel_degree=tensor,
        pipeline_parallel_degree=pipeline, virtual_pipeline_stages=chunks, microbatch_size=microbatch,
    )["hardware_flop_rate_per_accelerator"]  # fmt: skip
    row = next(line for line in README.splitlines() if line.startswith(f"| GPT {model.split()[1]},"))
    published, shown, error = row.split("|")[2:5]
    assert float(shown) == pytest.approx(rate / 1e12, abs=0.05)
    signed = float(error.strip(" *%").replace("−", "-").replace(" ", ""))
    assert signed == pytest.approx((rate / 1e12 / float(published) - 1) * 100, abs=0.06)
