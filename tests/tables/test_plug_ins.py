"""Tables and formulas that apply without being named: those of other packages, of a folder of the user's, of the environment."""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from amped.base.errors import FileError
from amped.base.plug_ins import folder_of
from tests.helpers.cli import amped
from tests.helpers.places import ROOT

TEMPLATE = ROOT / "docs" / "plug-in"
ACME = ("--model", "Acme LM 9B", "--system", "Acme Pod", "--gpus", "16")


def told(folder: Path, *words: str, **environment: str) -> subprocess.CompletedProcess[str]:
    """What amped prints in a folder, with further variables of the environment."""
    path = os.pathsep.join([environment.pop("PYTHONPATH", ""), str(ROOT)])
    return subprocess.run([sys.executable, "-m", "amped", *words], cwd=folder, capture_output=True, text=True, check=False,
                          env={**os.environ, "PYTHONPATH": path, **environment})  # fmt: skip


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder on Python's path that looks as if the template were installed there."""
    folder = tmp_path_factory.mktemp("site")
    shutil.copytree(
        TEMPLATE / "src" / "acme_amped", folder / "acme_amped", ignore=shutil.ignore_patterns("__pycache__")
    )
    info = folder / "acme_amped-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: acme-amped\nVersion: 1.0\n", "utf-8")
    groups = "[amped.formulas]\nacme = acme_amped.formulas\n\n[amped.tables]\nacme = acme_amped.tables\n"
    (info / "entry_points.txt").write_text(groups, "utf-8")
    return folder


def test_a_package_adds_an_accelerator_a_model_and_a_formula_and_the_screen_says_so(installed: Path) -> None:
    screen = told(installed, "estimate", *ACME, PYTHONPATH=str(installed)).stdout
    assert screen.startswith("Acme LM 9B on 16 Acme A1 (2 x Acme Pod)")
    assert "tables of package acme apply" in screen
    formula = told(installed, "explain", "tokens_per_parameter", PYTHONPATH=str(installed)).stdout
    assert formula.startswith("tokens_per_parameter = 1.718")
    assert "has no row 'Acme LM 9B'" in amped("estimate", *ACME, folder=installed).stderr


@pytest.mark.thorough
def test_the_template_is_installed_as_it_is(tmp_path: Path) -> None:
    source = shutil.copytree(TEMPLATE, tmp_path / "plug-in")
    asked = [
        sys.executable,
        "-m",
        "pip",
        "install",
        "-q",
        "--no-deps",
        "--no-build-isolation",
        "--target",
        tmp_path / "site",
        source,
    ]
    done = subprocess.run(asked, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    found = told(tmp_path, "estimate", *ACME, "--json", PYTHONPATH=str(tmp_path / "site")).stdout
    assert json.loads(found)["number_of_parameters"] == 8_902_709_248


def test_a_folder_of_the_users_and_one_of_the_environment_lie_over_packages(installed: Path, tmp_path: Path) -> None:
    for place, layers in (("own/amped", 30), ("named", 20)):
        (tmp_path / place).mkdir(parents=True)
        rows = {"transformer_network_parameters": {"Acme LM 9B": {"layers": layers}}}
        (tmp_path / place / "mine.json").write_text(json.dumps(rows), "utf-8")
    places = {"PYTHONPATH": str(installed), "XDG_CONFIG_HOME": str(tmp_path / "own")}
    assert json.loads(told(tmp_path, "estimate", *ACME, "--json", **places).stdout)["number_of_parameters"] // 1e8 == 75
    named = told(tmp_path, "estimate", *ACME, "--json", **places, AMPED_LOOKUP_TABLES=str(tmp_path / "named")).stdout
    assert json.loads(named)["number_of_parameters"] // 1e8 == 54
    assert [n.partition(" apply")[0] for n in json.loads(named)["notices"] if " apply: " in n] == [
        "tables of package acme", "tables of your own folder", "tables of AMPED_LOOKUP_TABLES"]  # fmt: skip


def test_what_the_environment_names_wrongly_is_told_with_the_variable(tmp_path: Path) -> None:
    folder = told(tmp_path, "estimate", AMPED_LOOKUP_TABLES="nowhere")
    cloud = told(tmp_path, "estimate", AMPED_CLOUD="nobody")
    assert (folder.returncode, cloud.returncode) == (2, 2)
    assert "AMPED_LOOKUP_TABLES names it" in folder.stderr
    assert "AMPED_CLOUD: cloud: no prices of 'nobody' are known" in cloud.stderr


def test_the_environment_names_whose_prices_are_taken_and_a_command_another(tmp_path: Path) -> None:
    asked = ("estimate", "--model", "Llama 3 8B", "--gpus", "8")
    screen = told(tmp_path, *asked, AMPED_CLOUD="aws").stdout
    assert "aws on demand" in screen
    assert "AMPED_CLOUD names whose prices are taken: aws" in screen
    other = told(tmp_path, *asked, "--cloud", "lambda", AMPED_CLOUD="aws").stdout
    assert "lambda on demand" in other
    assert "AMPED_CLOUD" not in other


def test_an_entry_point_without_a_package_is_told_by_name() -> None:
    with pytest.raises(
        FileError, match=r"the entry point 'acme' of amped.tables names 'no_such_package', which is no package"
    ):
        folder_of("no_such_package", "acme", "amped.tables")
