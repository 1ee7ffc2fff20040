"""Names and texts of users' files are printed as they are: no markup, no formulas of spreadsheets; what they replace is told."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from tests.helpers.cli import amped

NAMES = ("X [/b]", "H100 [sxm] mine", "=1+1 H100")
RUN = ("--model", "Llama 3 8B", "--system", "DGX H100", "--gpus", 8, "--tp", 1, "--pp", 1, "--mbs", 1, "--zero", 1,
       "--gbs", 64)  # fmt: skip


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with accelerators of its own in ./lookup_tables/."""
    made: Path = tmp_path_factory.mktemp("names")
    rows = {name: {"extends": "H100 SXM", "notes": "a [red]hot[/red] one"} for name in NAMES}
    table = {"table": "accelerator_specifications", "rows": rows | {"H100 SXM": {"extends": "H100 SXM"}}}
    (made / "lookup_tables").mkdir()
    (made / "lookup_tables" / "mine.json").write_text(json.dumps(table))
    return made


@pytest.mark.parametrize("name", NAMES)
def test_a_name_in_brackets_is_printed_whole_by_every_verb(folder: Path, name: str) -> None:
    assert name in amped("list", "accelerators", folder=folder).stdout
    assert name in amped("show", name, folder=folder).stdout
    assert name in amped("estimate", *RUN, "--set", f"accelerator={name}", folder=folder).stdout


def test_a_row_that_takes_the_place_of_ampeds_own_is_told(folder: Path) -> None:
    told = "row 'H100 SXM' of lookup_tables/mine.json takes the place of amped's own row"
    assert told in amped("estimate", *RUN, folder=folder).stdout
    assert told not in amped("estimate", *RUN, "--set", "accelerator=X [/b]", folder=folder).stdout


def test_a_text_that_a_spreadsheet_would_compute_is_quoted(folder: Path) -> None:
    asked = ("explore", *RUN, "--vary", "accelerator==1+1 H100,H100 SXM", "--csv")
    lines = amped(*asked, folder=folder).stdout.splitlines()
    assert any(line.startswith("'=1+1 H100,") for line in lines)
    assert not any(line.startswith("=") for line in lines)


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="there is no full device here")
def test_a_full_disk_behind_the_output_is_told_without_a_traceback() -> None:
    with Path("/dev/full").open("w") as full:
        words = [sys.executable, "-m", "amped", "list", "models", "--json"]
        ran = subprocess.run(words, stdout=full, stderr=subprocess.PIPE, text=True)
    assert (ran.returncode, ran.stderr) == (2, "amped: the output cannot be written: there is no space left\n")


def test_a_wish_behind_a_thousand_blanks_is_read_and_a_text_that_is_too_long_refused(folder: Path) -> None:
    asked = ("explore", *RUN, "--space", "quick", "--where")
    near, far = (
        amped(*asked, f"step_time < 1e9 s{' ' * blanks}and step_time < 1e-9 s", "--json", folder=folder)
        for blanks in (1, 2000)
    )
    found = [json.loads(each.stdout)["feasible"] for each in (near, far)]
    assert found == [0, 0]
    long = amped(*asked, "step_time < 1 s" + " " * 20000, folder=folder)
    assert long.returncode == 2
    assert "has 20015 characters, and 10000 are the most" in long.stderr
