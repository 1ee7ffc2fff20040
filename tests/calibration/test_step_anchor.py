"""A measured step as an anchor: it moves what it tells, within what is known, and narrows the bands of what it tells about."""

import json
import math
from pathlib import Path

import numpy as np
import pytest

import amped
from amped.calibration.anchored_check import families
from amped.calibration.anchors import over_tables, read_anchor, rows_of
from amped.calibration.step_anchor import StepAnchor, anchored_to_steps
from amped.estimation.anchored import narrowed
from amped.estimation.own_runs import SCATTER
from amped.tables.table_files import KERNELS
from amped.validation.measurements import read_measurements
from tests.helpers.cli import amped as command

pytest.importorskip("scipy", reason="the extra 'fit' is not installed")
HEADS = "id,model,system,gpus,software,precision,tp,pp,mbs,gbs"
ON = {
    8: "Llama 3 8B,DGX H100,8,Megatron-Bridge,bf16,1,1,1,128",
    64: "Llama 3 8B,DGX H100,64,Megatron-Bridge,bf16,1,1,1,1024",
}
QUESTION = (
    "--model",
    "Llama 3 8B",
    "--system",
    "DGX H100",
    "--software",
    "Megatron-Bridge",
    "--gbs",
    "1024",
    "--mbs",
    "1",
)


def table(folder: Path, *rows: str, column: str = "measured_step_time") -> Path:
    path = folder / "runs.csv"
    path.write_text("\n".join([f"{HEADS},{column}", *rows]) + "\n")
    return path


@pytest.fixture(scope="module")
def node(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, StepAnchor]:
    """A run on one node that is slower than predicted, and its anchor."""
    path = table(tmp_path_factory.mktemp("node"), f"node,{ON[8]},14 s")
    found = read_anchor(path)
    assert isinstance(found, StepAnchor)
    return path, found


def test_a_band_narrows_by_what_was_measured() -> None:
    """With one number of effect u in the run and in the estimate, the variance u^2 becomes u^2 s^2 / (u^2 + s^2)."""
    u, s = 0.08, SCATTER
    after = u**2 * s**2 / (u**2 + s**2)
    once = narrowed(0.1, np.array([u]), np.array([[u]]), left=0.0)
    assert once == pytest.approx(0.1 * math.sqrt((after + s**2) / (u**2 + s**2)))
    assert narrowed(0.1, np.array([0.0, u]), np.array([[u, 0.0]]), left=0.0) == pytest.approx(
        0.1
    )  # it tells another number
    assert narrowed(0.1, np.array([u]), np.array([[u], [u]]), left=0.0) < once
    assert (
        narrowed(0.1, np.array([u]), np.array([[u]]), left=0.5) == 0.5
    )  # no narrower than what the run is still off by


def test_a_run_moves_the_prediction_most_of_the_way_and_each_number_within_its_bounds(
    node: tuple[Path, StepAnchor],
) -> None:
    (run,) = node[1].runs
    assert run.before < run.now < run.measured
    assert (run.now - run.before) / (run.measured - run.before) > 0.7
    for number, value in zip(node[1].numbers, node[1].values, strict=True):
        low, high = number.coefficient.within(number.value)
        assert low <= value <= high
        assert abs(value - number.value) < 2 * number.coefficient.doubt


@pytest.mark.thorough
def test_a_run_that_no_doubt_explains_is_told_and_keeps_the_band_wide(tmp_path: Path) -> None:
    """Three times as slow as predicted: no clock and no efficiency is as bad."""
    path = table(tmp_path, f"node,{ON[8]},40 s")
    found = over_tables(path, {}, None)
    assert any("node is still -" in said and "amped why --measured" in said for said in found.said)
    e = amped.estimate(
        model="Llama 3 8B",
        system="DGX H100",
        software="Megatron-Bridge",
        number_of_accelerators=8,
        lookup_tables=found.tables,
    )
    assert e.to_dict()["step_time_error_fraction"] > 1.0


def test_a_run_on_one_node_tells_nothing_about_links_between_nodes(node: tuple[Path, StepAnchor]) -> None:
    row = rows_of(node[1])[KERNELS]["H100 SXM"]
    assert "training_clock_fraction" in row
    assert not [column for column in row if column.startswith("inter_node")]


def test_a_measured_step_as_predicted_moves_nothing(tmp_path: Path, node: tuple[Path, StepAnchor]) -> None:
    path = table(tmp_path, f"node,{ON[8]},{node[1].runs[0].before!r}")
    same = anchored_to_steps(read_measurements(path), "runs.csv")
    assert [number.value for number in same.numbers] == pytest.approx(same.values.tolist(), rel=1e-3)


@pytest.mark.thorough
def test_an_anchored_cluster_is_told_with_a_narrower_band(tmp_path: Path, node: tuple[Path, StepAnchor]) -> None:
    ask = ("estimate", *QUESTION, "--gpus", "64", "--json")
    plain, found = (command(*ask, *more, folder=tmp_path) for more in ((), ("--anchor", node[0])))
    without, anchored = json.loads(plain.stdout), json.loads(found.stdout)
    assert anchored["step_time"] > 1.04 * without["step_time"]
    assert anchored["step_time_error_fraction"] < 0.7 * without["step_time_error_fraction"]
    assert "runs.csv: a step of 14 s on 8 H100 SXM" in anchored["anchored_on"]
    assert "it moves the rows H100 SXM and Megatron-Bridge, and no other" in found.stderr
    same = amped.estimate(model="Llama 3 8B", system="DGX H100", software="Megatron-Bridge", batch_size=1024, microbatch_size=1,
                          number_of_accelerators=64, anchor=node[0])  # fmt: skip
    assert same["step_time"] == anchored["step_time"]


@pytest.mark.thorough
def test_other_rows_are_estimated_as_without_an_anchor(node: tuple[Path, StepAnchor]) -> None:
    """A run on H100 tells nothing of A100, and one with Megatron-Bridge nothing of PyTorch."""
    ask = {"model": "Llama 3 8B", "system": "DGX A100", "software": "PyTorch", "number_of_accelerators": 8}
    plain, anchored = (amped.estimate(**ask, anchor=anchor) for anchor in (None, node[0]))
    assert anchored.to_dict() == plain.to_dict()


def test_a_family_is_predicted_from_its_smallest_run(tmp_path: Path) -> None:
    path = table(tmp_path, f"small,{ON[8]},14.3 s", f"large,{ON[64]},14.1 s")
    (family,) = families(path)
    (other,) = family.others
    assert (family.anchor, family.accelerators, other.name, other.accelerators) == ("small", 8, "large", 64)
    assert abs(other.error_with) < 0.3 * abs(other.error_without)
    assert other.band_with < 0.7 * other.band_without
    assert other.is_inside


def test_a_run_that_cannot_be_estimated_is_no_anchor(tmp_path: Path) -> None:
    path = table(tmp_path, "node,Llama 3 8B,,8,Megatron-Bridge,bf16,1,1,1,128,14 s")
    refused = command("estimate", *QUESTION, "--gpus", "64", "--anchor", path, folder=tmp_path)
    assert refused.returncode == 2
    assert "no run of runs.csv can be an anchor" in refused.stderr
    assert "on what (accelerator or system)" in " ".join(refused.stderr.split())
