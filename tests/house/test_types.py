"""Types are checked in the annexe too, by the name it has once it is installed."""

import subprocess
import sys
import tomllib

import pytest

from tests.helpers.places import ROOT

LINK = ROOT / ".ci" / "types" / "amped" / "kernels"


def test_the_annexe_is_checked_under_its_installed_name():
    asked = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["tool"]["mypy"]
    assert asked["packages"] == ["amped", "amped.kernels", "tests.helpers", "tests.campaigns"]
    assert LINK.resolve() == ROOT / "kernels"
    spared = [m for o in asked["overrides"] if o.get("ignore_missing_imports") for m in o["module"]]
    assert [m for m in spared if m.startswith("amped")] == []


@pytest.mark.thorough
@pytest.mark.skipif(not LINK.is_dir(), reason="this checkout has no symbolic links")
def test_a_wrong_call_into_the_annexe_is_told(tmp_path):
    page = tmp_path / "page.py"
    page.write_text("from amped.kernels.specs import sizes_of\nsizes_of(1, 2.0)\n", "utf-8")
    command = [sys.executable, "-m", "mypy", str(page)]  # with what the last check kept: the whole takes long
    done = subprocess.run(command, capture_output=True, text=True, check=False, cwd=ROOT, encoding="utf-8")
    assert done.stdout.count("incompatible type") == 2, done.stdout + done.stderr
