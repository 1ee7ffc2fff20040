"""What a terminal and a shell are to amped: columns, completion, a closed output, a folder that takes no file."""

import json
import os
import re
import subprocess
import sys
from pathlib import Path
from unittest import mock

import pytest

from amped.report.screen import in_short
from amped.report.width import columns, wrapped
from tests.helpers.places import ROOT

MODEL = ("--model", "Llama 3 70B", "--gpus", "64")
# What is typed before the key of completion, and what is offered.
LINES = [
    (("amped", "esti"), ["estimate"]),
    (("amped", "estimate", "--mod"), ["--model"]),
    (("amped", "list", "mod"), ["models"]),
    (("amped", "bench", "anc"), ["anchor"]),
    (("amped", "explore", "--space", "qu"), ["quick"]),
]
# What bash asks of a command's completion, and what it would offer.
COMPLETE = """
set -e
eval "$(amped --show-completion bash)"
COMP_WORDS=("$@"); COMP_CWORD=$(($# - 1))
_amped_completion amped
echo "${COMPREPLY[@]}"
"""


def run(words: tuple[str, ...], folder: Path, **variables: str) -> subprocess.CompletedProcess[str]:
    environment = {name: value for name, value in os.environ.items() if name != "COLUMNS"} | variables
    environment |= {"PYTHONPATH": str(ROOT), "PYTHONDONTWRITEBYTECODE": "1"}
    command = [sys.executable, "-m", "amped", *words]
    return subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, timeout=50, check=False)


@pytest.mark.thorough
@pytest.mark.parametrize(("line", "offered"), LINES, ids=lambda each: str(each)[:40])
def test_bash_completes_verbs_options_and_choices(line: tuple[str, ...], offered: list[str], tmp_path: Path) -> None:
    program = tmp_path / "amped"
    program.write_text(f"#!{sys.executable}\nfrom amped.cli.app import main\nmain()\n")
    program.chmod(0o755)
    script = ["bash", "-c", COMPLETE, "bash", *line]
    environment = os.environ | {"PATH": f"{tmp_path}:{os.environ['PATH']}", "PYTHONPATH": str(ROOT)}
    done = subprocess.run(
        script, cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=50, check=False
    )
    assert (done.stdout.split(), done.stderr) == (offered, "")


# How a shell asks without being there: which variable has the line, and what else it sets.
ASKING = {
    "zsh": {"_AMPED_COMPLETE": "complete_zsh"},
    "fish": {"_AMPED_COMPLETE": "complete_fish", "_TYPER_COMPLETE_FISH_ACTION": "get-args"},
}


@pytest.mark.thorough
@pytest.mark.parametrize("shell", ASKING)
@pytest.mark.parametrize(("line", "offered"), LINES, ids=lambda each: str(each)[:40])
def test_zsh_and_fish_complete_the_same(shell: str, line: tuple[str, ...], offered: list[str], tmp_path: Path) -> None:
    done = run((), tmp_path, **ASKING[shell], _TYPER_COMPLETE_ARGS=" ".join(line))
    rows = re.findall(r'"([^":]+)"(?::"[^"]*")?', done.stdout) if shell == "zsh" else done.stdout.splitlines()
    assert ([row.partition("\t")[0] for row in rows], done.stderr) == (offered, "")


@pytest.mark.thorough
@pytest.mark.parametrize(
    ("shell", "begins"),
    [("bash", "_amped_completion() {"), ("zsh", "#compdef amped"), ("fish", "complete --command amped")],
)
def test_the_script_of_a_shell_is_that_of_the_shell_that_is_named(shell: str, begins: str, tmp_path: Path) -> None:
    done = run(("--show-completion", shell), tmp_path)
    assert done.stdout.strip().startswith(begins), done.stdout
    assert f"complete_{shell}" in done.stdout


@pytest.mark.thorough
@pytest.mark.parametrize(
    "words",
    [
        ("estimate", *MODEL),
        ("estimate", *MODEL, "--stages"),
        ("estimate", *MODEL, "--layers"),
        ("why", *MODEL),
        ("whatif", *MODEL, "--set", "matrix_precision=fp8"),
        ("compare", "DGX H100", "DGX B200", *MODEL),
        ("explore", *MODEL, "--space", "quick", "--top", "3"),
        ("recommend", "--model", "Llama 3 8B", "--deadline", "90 days"),
    ],
    ids=lambda words: " ".join(words)[:40],
)
def test_what_is_redirected_has_80_columns_unless_the_variable_says_otherwise(
    words: tuple[str, ...], tmp_path: Path
) -> None:
    for width, told in ((80, run(words, tmp_path)), (60, run(words, tmp_path, COLUMNS="60"))):
        lines = told.stdout.splitlines()
        assert max(map(len, lines)) <= width, max(lines, key=len)
        assert not [line for line in lines if "… " in line], "a cell is cut"


def test_the_columns_are_those_of_the_terminal_up_to_100() -> None:
    for variable, found in (("60", 60), ("200", 100), ("1", 40), ("0", 80), ("", 80)):
        with (
            mock.patch.dict(os.environ, {"COLUMNS": variable}),
            mock.patch("os.get_terminal_size", side_effect=OSError),
        ):
            assert columns() == found


def test_no_line_ends_between_a_number_and_its_unit() -> None:
    text = "1 step in 29.75 s ± 18 %     103.3 tokens/s     MFU 35.6 % (causal 35.1)"
    for room in range(30, 80):
        lines = wrapped(text, room)
        assert "MFU 35.6 % (causal 35.1)" in " | ".join(lines)
        assert not [line for line in lines if line[-1].isdigit() or line.endswith("±")]


@pytest.mark.thorough
def test_no_note_is_cut_in_a_sentence(tmp_path: Path) -> None:
    clause = "note: sequences of 8,192 tokens are taken, and what is longer is not"
    assert in_short("; ".join([clause] * 3), 2 * 80) == f"{clause}; {clause}; more with --full"
    assert in_short("a" * 200 + " b", 160) == "a" * 200 + " b"
    for words in (("--model", "Llama 3.1 405B", "--gpus", "512"), ("--model", "DeepSeek V3", "--gpus", "512"), MODEL):
        assert "…" not in run(("estimate", *words), tmp_path).stdout


@pytest.mark.thorough
def test_the_first_screen_says_in_words_which_stages_differ(tmp_path: Path) -> None:
    uneven = ("estimate", "--model", "Llama 3.1 405B", "--gpus", "512", "--tp", "8", "--pp", "16", "--vp", "1")
    told = run(uneven, tmp_path).stdout
    assert "stages have 7 to 8 layers" in told
    assert "|" not in told
    assert "layers by stage" in run((*uneven, "--full"), tmp_path).stdout
    even = run(("estimate", *MODEL, "--pp", "4"), tmp_path).stdout
    assert "stages have" not in even


@pytest.mark.thorough
def test_images_are_trained_with_software_for_them(tmp_path: Path) -> None:
    for part in ("H100", "RTX 4090", "MI300X"):
        told = run(("estimate", "--model", "ViT-L/16", "--accelerator", part, "--gpus", "8"), tmp_path).stdout
        assert "software PyTorch" in told.replace("\n           ", " "), told


@pytest.mark.thorough
def test_a_closed_output_is_no_traceback(tmp_path: Path) -> None:
    for how in (">&-", "2>&-", ">&- 2>&-"):
        command = f'"{sys.executable}" -m amped estimate minimal --output-dir o {how}'
        environment = os.environ | {"PYTHONPATH": str(ROOT)}
        done = subprocess.run(
            command, shell=True, cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=50, check=False
        )
        assert (done.returncode, "Traceback" in done.stderr) == (0, False), done.stderr


@pytest.mark.thorough
def test_a_folder_that_takes_no_file_costs_no_number(tmp_path: Path) -> None:
    (tmp_path / "output_files").write_text("a file, where a folder would be made")
    done = run(("estimate", "minimal"), tmp_path)
    assert (done.returncode, "TIME" in done.stdout) == (0, True), done.stderr
    assert "note: no files are written to output_files: is a file" in done.stderr
    asked = run(("estimate", "minimal", "--output-dir", "output_files"), tmp_path)
    assert (asked.returncode, "TIME" in asked.stdout) == (2, True)


@pytest.mark.thorough
def test_a_name_that_turns_the_direction_of_writing_is_shown_escaped(tmp_path: Path) -> None:
    file = tmp_path / "own.json"
    row = {"table": "transformer_network_parameters", "rows": {"evil\u202eX": {"extends": "Llama 3 8B"}}}
    for text in (json.dumps(row), json.dumps(row, ensure_ascii=False)):
        file.write_text(text, "utf-8")
        for words in (("list", "models"), ("show", "evil\u202eX"), ("estimate", "--model", "evil\u202eX")):
            done = run((*words, "--lookup-tables", str(file)), tmp_path)
            assert (done.returncode, "\u202e" in done.stdout + done.stderr, r"evil\u202eX" in done.stdout) == (
                0,
                False,
                True,
            )
