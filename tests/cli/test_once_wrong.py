"""Command lines that once ended with an exception's words, or with different exit codes for one thing."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.helpers.cli import amped


def test_a_layout_of_one_stage_is_read(tmp_path: Path) -> None:
    one = ["--set", "pipeline_layout=32", "--set", "pipeline_parallel_degree=1", "--set", "layers=32"]
    assert amped("estimate", *one, folder=tmp_path).returncode == 0


def test_a_layout_of_one_stage_for_eight_is_refused_by_its_rule(tmp_path: Path) -> None:
    eight = ["--set", "pipeline_layout=96", "--set", "pipeline_parallel_degree=8"]
    done = amped("estimate", *eight, folder=tmp_path)
    assert done.returncode == 2
    assert "the_layout_lists_every_stage" in done.stderr


def test_a_number_where_a_row_has_text_is_told_with_its_place(tmp_path: Path) -> None:
    rows = {"Mine": {"extends": "H100 SXM", "fitted_on": 5}}
    (tmp_path / "mine.json").write_text(json.dumps({"table": "accelerator_specifications", "rows": rows}), "utf-8")
    for words in (["check-tables", "mine.json"], ["show", "Mine", "--lookup-tables", "mine.json"]):
        done = amped(*words, folder=tmp_path)
        assert done.returncode == 2
        assert "row 'Mine', column 'fitted_on': 5 is not text" in done.stderr


@pytest.mark.thorough
@pytest.mark.skipif(os.name != "posix", reason="pipes of POSIX")
def test_a_closed_pipe_has_one_exit_code_in_every_format(tmp_path: Path) -> None:
    codes = set()
    for shape in ("table", "csv", "json"):
        words = ["explore", "--model", "Llama 3 8B", "--gpus", "8", "--space", "degrees", "--format", shape]
        reading, writing = os.pipe()
        os.close(reading)
        done = subprocess.run(
            [sys.executable, "-m", "amped", *words],
            cwd=tmp_path,
            stdout=writing,
            stderr=subprocess.PIPE,
            text=True,
            check=False,
        )
        os.close(writing)
        assert "Traceback" not in done.stderr
        codes.add(done.returncode)
    assert len(codes) == 1
