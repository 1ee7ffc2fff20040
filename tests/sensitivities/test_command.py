"""`amped sensitivity`: tables within a page, flat JSON, a tornado plot that can be read."""

import json
import re
from itertools import combinations

import pytest
from matplotlib.text import Annotation

from amped.report import plots, tornado
from tests.helpers.cli import amped
from tests.helpers.sensitivity import sensitivity


def test_tables_fit_the_page_and_are_sorted_by_size(tmp_path):
    done = amped(
        "sensitivity", "--kind", "mapping", "--kind", "accelerator", "--kind", "model", "--top", "40", folder=tmp_path
    )
    assert done.returncode == 0, done.stderr
    assert "\x1b" not in done.stdout
    assert max(map(len, done.stdout.splitlines())) <= 100
    slopes, changes = done.stdout.split("\nCounts, switches")
    sizes = [abs(float(size)) for size in re.findall(r" ([+-]\d\.\d{4})\b", slopes)]
    assert len(sizes) > 10
    assert sizes == sorted(sizes, reverse=True)
    assert re.search(r"^tensor_parallel_degree .* 4 .* does not fit$", changes, re.M)
    assert list(tmp_path.iterdir()) == []


def test_json_is_flat_and_has_every_parameter(tmp_path):
    done = amped("sensitivity", "--of", "memory_per_accelerator_bytes", "--json", "--top", 1, folder=tmp_path)
    found = json.loads(done.stdout)
    assert (found["of"], found["unit"], found["step"]) == ("memory_per_accelerator_bytes", "byte", 0.001)
    rows = {row["name"]: row for row in found["parameters"]}
    assert len(rows) == len(found["parameters"]) > 80
    assert rows["memory_bandwidth"]["elasticity"] == 0
    assert rows["memory_bandwidth"]["unit"] == "byte/s"
    tensor = rows["tensor_parallel_degree"]
    assert (tensor["value"], tensor["elasticity"], tensor["varied"]) == (8, None, "neighbor")
    assert [trial["value"] for trial in tensor["trials"]] == [4, 16]


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (["--of", "step_tim"], "did you mean 'step_time'"),
        (["--kind", "sistem"], "did you mean 'system'"),
        (["--step", "0"], "--step"),
        (["--set", "memory_bandwith=2 TB/s"], "did you mean 'memory_bandwidth'"),
        (["--set", "accelerator_price=1,2"], "is a list"),
    ],
)
def test_a_mistake_is_told_without_a_traceback(tmp_path, arguments, told):
    done = amped("sensitivity", *arguments, folder=tmp_path)
    assert done.returncode == 2
    assert told in done.stderr
    assert "Traceback" not in done.stderr


def test_a_result_whose_inputs_nobody_gives_names_them(tmp_path):
    done = amped("sensitivity", "--of", "cost", "--accelerator", "MI100", folder=tmp_path)
    assert done.returncode == 2
    assert "'accelerator_price' is missing" in done.stderr


def test_the_plot_is_written_beside_the_other_outputs(tmp_path):
    done = amped("sensitivity", "--plot", "--top", 5, folder=tmp_path)
    assert done.returncode == 0, done.stderr
    (path,) = (tmp_path / "output_files").iterdir()
    assert path.name.endswith("_sensitivity.png")
    assert path.read_bytes().startswith(b"\x89PNG")
    assert f"written to {path.relative_to(tmp_path)}" in done.stderr


@pytest.mark.thorough
@pytest.mark.parametrize(("name", "of"), [("default", "step_time"), ("mixtral-8x7b", "cost"), ("amped-style", "energy"),
                                          ("minimal", "exposed_expert_communication_time")])  # fmt: skip
def test_nothing_in_the_plot_is_written_over_something_else(monkeypatch, name, of):
    seen = []

    def measured(figure, suffix):
        figure.draw_without_rendering()
        for panel in figure.axes:
            boxes = [a.get_window_extent() for a in panel.texts if isinstance(a, Annotation)]
            frame = panel.get_window_extent()
            inside = [frame.x0 <= box.x0 and box.x1 <= frame.x1 for box in boxes]
            overlaps = [one for one, other in combinations(boxes, 2) if one.padded(-1).overlaps(other.padded(-1))]
            seen.append((all(inside), len(overlaps)))
        return image(figure, suffix)

    image = plots.image
    monkeypatch.setattr(plots, "image", measured)
    assert tornado.tornado_plot(sensitivity(name, of), 20).startswith(b"\x89PNG")
    assert set(seen) == {(True, 0)}


def test_a_result_on_which_nothing_varied_has_an_effect_says_so(tmp_path):
    done = amped("sensitivity", "--of", "memory_bandwidth", "--kind", "mapping", "--plot", folder=tmp_path)
    assert "No parameter that was varied changes memory_bandwidth." in done.stdout
    assert next((tmp_path / "output_files").iterdir()).stat().st_size > 1000
