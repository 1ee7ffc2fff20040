"""`amped memory bench`: its tables, what they say, and what it refuses."""

import json
import re
import subprocess
import sys

import pytest
from typer.testing import CliRunner

from amped.cli.app import app
from amped.report.memory import readings
from tests.helpers.places import ROOT

SMALL = ["memory", "bench", "--batch", "2", "--seq", "16", "--hidden", "32", "--heads", "2", "--no-compile", "--seconds", "0.001",
         "--device", "cpu"]  # fmt: skip


def run(*arguments):
    pytest.importorskip("torch", reason="torch is not installed: pip install 'amped[torch]'")
    done = CliRunner().invoke(app, [*SMALL, *arguments], catch_exceptions=False)
    assert done.exit_code == 0
    return done.stdout


def row(name, kept=0.0, time=0.0, saved=0.0):
    return {"name": name, "saved_bytes": saved, "added_time": 0.0, "step_time": time, "kept_bytes": kept, "pays": True}


def test_what_is_measured_is_the_closed_form():
    found = json.loads(run("--json", "--dtype", "bfloat16"))
    assert {r["name"]: r["saved_bytes"] for r in found["techniques"]} == {
        r["name"]: r["expected_bytes"] for r in found["techniques"]
    }
    assert all(r["step_time"] > 0 for r in found["variants"])
    kept = {r["name"]: r["kept_bytes"] for r in found["variants"]}
    assert kept["fused attention, whole layer recomputed"] == 2 * 16 * 32 * 2
    assert (found["device"], found["dtype"]) == ("cpu", "bfloat16")


def test_the_tables_fit_a_page_and_are_the_same_as_markdown():
    plain, page = run(), run("--markdown")
    assert max(map(len, plain.splitlines())) <= 100
    for text in (plain, page):
        assert re.search(r"in_place_norm[ |]+[\d,]+", text)
        assert "No other variant keeps as little in as little time" in text


def test_only_what_nothing_beats_pays():
    pytest.importorskip("torch", reason="torch is not installed: pip install 'amped[torch]'")
    from amped.kernels.memory.bench import Row, front

    rows = [Row("a", 3, 1), Row("b", 2, 2), Row("c", 3, 2), Row("d", 1, 5), Row("e", float("nan"), note="not here")]
    assert [r.pays for r in front(rows)] == [True, True, False, True, False]


@pytest.mark.parametrize(("again", "told"), [(1.0, "does not pay"), (3.0, "is not beaten")])
def test_it_says_what_was_measured(again, told):
    techniques = [row("in_place_activation", time=2.0, saved=7.0), row("dropout_recomputation", time=2.0, saved=1.0),
                  row("activation_function_recomputation", time=again, saved=8.0)]  # fmt: skip
    found = readings({"techniques": techniques, "variants": [row("fused attention", time=1.0, saved=5.0)]})
    assert told in found[0]
    assert "does not pay" in found[1]


@pytest.mark.parametrize(("arguments", "told"), [
    (["--heads", "5"], "is not divisible by 5 heads"), (["--batch", "0"], "give --batch a whole number above 0"),
    (["--dtype", "bloat16"], "did you mean 'bfloat16'"), (["--device", "tpu"], "--device 'tpu' is not known"),
    (["--compile", "--budgets", "1,1.5"], "--budgets: 1.5 is no share"), (["--compile", "--budgets", "much"], "are no numbers"),
])  # fmt: skip
def test_what_does_not_fit_is_told(arguments, told):
    pytest.importorskip("torch", reason="torch is not installed: pip install 'amped[torch]'")
    done = CliRunner().invoke(app, [*SMALL, *arguments])
    assert told in str(done.exception)


def test_without_torch_it_says_what_to_install():
    code = "import sys; sys.modules['torch'] = None; sys.argv = ['amped', 'memory', 'bench']; from amped.cli.app import main; main()"
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 2
    assert "pip install 'amped[torch]'" in done.stderr


def test_its_help_has_an_example():
    words = CliRunner().invoke(app, ["memory", "bench", "--help"]).stdout.split()
    assert "Example: amped memory bench" in " ".join(words)
