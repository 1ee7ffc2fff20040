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


USER = """
import amped

e: amped.Estimate = amped.estimate(model="Llama 3 8B", system="DGX H100", number_of_accelerators=8)
numbers: list[float] = [e.step_time, e["MFU"], amped.estimateTrainingTime("H100 PCIe")]
config = amped.load_config("default")
found = amped.explore(config, space="quick", vary={"batch_size": [64, 128]}, where="memory < 70 GB")
best: list[dict[str, object]] = found.best
amped.explain("step_time", config).value
amped.why(config, measured="6.4 s").suspects
amped.whatif(config, change={"memory_bandwidth": "4 TB/s"}).estimates
amped.compare("DGX A100", "DGX H100", model="Llama 3 8B").to_frame()
amped.recommend("DGX H100", model="Llama 3 8B", deadline="30 days")[0].sizes
amped.sensitivity(config, of="training_time")["frequency"].elasticity
amped.validate("runs.csv").errors
amped.calibrate("runs.csv", accelerator="H100 SXM").write("row.json")
amped.tune(["lora"], model="Llama 3 8B")[0].remedy
amped.support(config).not_modeled
imported = amped.import_config("config.json")
script: str = amped.export(imported, form="megatron")
amped.write_report("page.html", imported).name
amped.plot(found, kind="histogram").savefig("plot.png")
"""


@pytest.mark.thorough
def test_a_user_s_script_over_all_functions_is_strictly_typed(tmp_path):
    page = tmp_path / "script.py"
    page.write_text(USER + "reveal_type(amped.estimate(config))\namped.estimate(1)\n", "utf-8")
    done = subprocess.run([sys.executable, "-m", "mypy", "--strict", str(page)], capture_output=True, text=True, check=False, cwd=ROOT,
                          encoding="utf-8")  # fmt: skip
    assert done.stdout.count("error:") == 1, done.stdout + done.stderr  # the last line is wrong
    assert "Estimate" in done.stdout.partition("Revealed type")[2]
