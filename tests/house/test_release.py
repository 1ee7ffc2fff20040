"""What a release needs beside the code: files that hosts read are whole, and name what there is."""

import shlex
import tomllib

import pytest

from amped.base.version import __version__
from tests.helpers.places import ROOT

yaml = pytest.importorskip("yaml")


def test_the_files_that_hosts_read_are_whole() -> None:
    cited = yaml.safe_load((ROOT / "CITATION.cff").read_text("utf-8"))
    assert cited["version"] == __version__
    assert len(cited["references"]) == 5
    for template in (ROOT / ".github" / "ISSUE_TEMPLATE").glob("*.yml"):
        assert "amped support" in str(yaml.safe_load(template.read_text("utf-8"))["body"])
    (job,) = yaml.safe_load((ROOT / ".github" / "workflows" / "ci.yml").read_text("utf-8"))["jobs"].values()
    assert job["steps"][-1]["run"] == ".ci/run"
    (local,) = yaml.safe_load((ROOT / ".pre-commit-config.yaml").read_text("utf-8"))["repos"]
    assert [hook["id"] for hook in local["hooks"]] == ["lint", "format", "types"]


def test_the_image_installs_extras_that_there_are() -> None:
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]["optional-dependencies"]
    install = next(line for line in (ROOT / "Dockerfile").read_text("utf-8").splitlines() if "pip install" in line)
    asked = shlex.split(install)[-1].removeprefix(".[").removesuffix("]").split(",")
    assert {*asked} <= {*extras}
