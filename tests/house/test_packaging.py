"""amped runs from a wheel, from an editable install and without one, and leaves no other name behind."""

import json
import subprocess
import sys
import venv
import zipfile
from importlib import metadata, resources
from pathlib import Path

import pytest
from packaging.requirements import Requirement

from tests.helpers.places import ROOT

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
    """A virtual environment with what amped says that it depends on, and all that this needs: nothing else, no amped."""
    folder = tmp_path_factory.mktemp("clean")
    venv.create(folder)
    python = folder / ("Scripts" if sys.platform == "win32" else "bin") / "python"
    packages = Path(run(python, "-c", "import site; print(site.getsitepackages()[0])", cwd=folder).stdout.strip())
    for name in needed(dependencies()):
        installed = metadata.distribution(name)
        for top in {file.parts[0] for file in installed.files or () if ".." not in file.parts}:
            link = packages / top
            if not link.exists():
                link.symlink_to(installed.locate_file(top))
    return python


def needed(requirements, seen=()):
    """Distributions that these requirements bring in, as they are installed here."""
    found = dict.fromkeys(seen)
    for line in requirements:
        requirement = Requirement(line)
        wanted = requirement.marker is None or requirement.marker.evaluate({"extra": ""})
        if wanted and requirement.name not in found:
            found[requirement.name] = None
            found |= dict.fromkeys(needed(metadata.requires(requirement.name) or (), found))
    return list(found)


def dependencies():
    import tomllib

    return tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["dependencies"]


def test_the_wheel_carries_its_data_under_one_name(wheel):
    names = zipfile.ZipFile(wheel).namelist()
    assert {name.split("/")[0] for name in names if ".dist-info" not in name} == {"amped"}
    for data in ("py.typed", "base/units.txt", "configs/default.json", "schema/config.schema.json",
                 "lookup_tables/accelerator_specifications.json", "lookup_tables/published_measurements.csv",
                 "kernels/__init__.py", "report/page/page.html", "report/page/echarts/echarts.min.js"):  # fmt: skip
        assert f"amped/{data}" in names


def test_without_an_install_the_checkout_runs(clean_python):
    done = run(clean_python, "-m", "amped", "list", "configs", cwd=ROOT)
    assert done.returncode == 0, done.stderr
    assert "default" in done.stdout


def test_the_wheel_runs_from_another_folder(wheel, clean_python, tmp_path):
    into = ("--python", clean_python, "install", "-q", "--no-deps")
    done = run(sys.executable, "-m", "pip", *into, wheel, cwd=tmp_path)
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
