"""amped runs from a wheel, from an editable install and without one, and leaves no other name behind."""

import json
import subprocess
import sys
import venv
import zipfile
from importlib import resources
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
pytestmark = pytest.mark.slow


def run(*command, cwd, **more):
    return subprocess.run([str(part) for part in command], cwd=cwd, capture_output=True, text=True, check=False, **more)


@pytest.fixture(scope="module")
def wheel(tmp_path_factory):
    folder = tmp_path_factory.mktemp("wheel")
    source = tmp_path_factory.mktemp("source") / "amped"
    copied = run("git", "clone", "-q", ROOT, source, cwd=folder)
    assert copied.returncode == 0, copied.stderr
    for changed in run("git", "ls-files", "-mo", "--exclude-standard", cwd=ROOT).stdout.split():
        if (ROOT / changed).is_file():
            (source / changed).parent.mkdir(parents=True, exist_ok=True)
            (source / changed).write_bytes((ROOT / changed).read_bytes())
    built = run(sys.executable, "-m", "pip", "wheel", "-q", "--no-deps", "-w", folder, source, cwd=folder)
    assert built.returncode == 0, built.stderr
    return next(folder.glob("*.whl"))


@pytest.fixture(scope="module")
def clean_python(tmp_path_factory):
    """A virtual environment with amped's dependencies and without amped."""
    folder = tmp_path_factory.mktemp("clean")
    venv.create(folder, with_pip=True)
    python = folder / ("Scripts" if sys.platform == "win32" else "bin") / "python"
    needed = [line.partition(">")[0] for line in dependencies()]
    done = run(python, "-m", "pip", "install", "-q", "-c", ROOT / "constraints.txt", *needed, cwd=folder)
    assert done.returncode == 0, done.stderr
    return python


def dependencies():
    import tomllib

    return tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["dependencies"]


def test_the_wheel_carries_its_data_under_one_name(wheel):
    names = zipfile.ZipFile(wheel).namelist()
    assert {name.split("/")[0] for name in names if ".dist-info" not in name} == {"amped"}
    for data in ("py.typed", "units.txt", "configs/default.json", "schema/config.schema.json",
                 "lookup_tables/accelerator_specifications.json", "lookup_tables/published_measurements.csv",
                 "kernels/__init__.py"):  # fmt: skip
        assert f"amped/{data}" in names


def test_without_an_install_the_checkout_runs(clean_python):
    done = run(clean_python, "-m", "amped", "list", "configs", cwd=ROOT)
    assert done.returncode == 0, done.stderr
    assert "default" in done.stdout


def test_the_wheel_runs_from_another_folder(wheel, clean_python, tmp_path):
    done = run(clean_python, "-m", "pip", "install", "-q", "--no-deps", wheel, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    estimate = run(clean_python.parent / "amped", "estimate", "--json", cwd=tmp_path)
    assert estimate.returncode == 0, estimate.stderr
    assert json.loads(estimate.stdout)["step_time"] > 0
    for name in ("configs", "kernels", "lookup_tables"):
        lone = run(clean_python, "-c", f"import {name}", cwd=tmp_path)
        assert "ModuleNotFoundError" in lone.stderr
        within = run(clean_python, "-c", f"import amped.{name}", cwd=tmp_path)
        assert within.returncode == 0, within.stderr


def test_the_install_under_test_finds_its_data():
    for name in ("configs", "lookup_tables", "schema"):
        assert any(f.name.endswith(".json") for f in resources.files(f"amped.{name}").iterdir())
