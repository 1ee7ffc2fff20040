"""Plots of an exploration: what their axes hold is what the rows have, and what cannot be drawn is said."""

import json
from pathlib import Path

import numpy as np
import pytest

import amped
from amped.base.errors import AmpedError
from amped.report.exploring_plots import figure
from amped.report.human import DAY, HOUR
from amped.report.plot_choice import Drawing, drawing
from amped.report.plots import as_image
from tests.helpers.cli import amped as command
from tests.helpers.cli import verb
from tests.helpers.explore import SMALL

SIZES, SYSTEMS = [8.0, 16.0, 32.0], ["DGX A100", "DGX H100"]
VARY = {"number_of_accelerators": SIZES, "system": SYSTEMS}
TIME, MEMORY = "training_time", "memory_per_accelerator_bytes"


def without_size() -> dict[str, object]:
    config = json.loads(json.dumps(SMALL))
    del config["system_architecture_parameters"]["parameters"]["number_of_accelerators"]
    return config  # type: ignore[no-any-return]


def drawn(kind: str, vary=None, along=(), front=None, **more):
    """The figure, and the exploration that it shows."""
    wanted = drawing(kind, list(vary or {}), along, front)
    found = amped.explore(
        SMALL, vary=vary or {}, each=wanted.names, pareto=wanted.front, top=5, space="degrees", **more
    )
    return figure(wanted, found.groups.values(), found.front, found.objective, "a title"), found, wanted


def lines_of(panel) -> dict[str, tuple[list[float], list[float]]]:
    return {line.get_label(): (list(line.get_xdata()), list(line.get_ydata())) for line in panel.get_lines()}


@pytest.fixture(scope="module")
def scaling():
    wanted = drawing("scaling", list(VARY), (), None)
    found = amped.explore(without_size(), vary=VARY, each=wanted.names, top=5, space="degrees")
    return figure(wanted, found.groups.values(), (), found.objective, "a title"), found


class TestScaling:
    def test_the_best_of_each_system_is_a_line_of_time_over_accelerators(self, scaling):
        plot, _ = scaling
        lines = lines_of(plot.axes[0])
        for system in SYSTEMS:
            alone = [amped.explore(without_size(), system=system, number_of_accelerators=int(n), space="degrees", top=1).best
                     for n in SIZES]  # fmt: skip
            x, y = lines[system]
            assert x == [n for n, best in zip(SIZES, alone, strict=True) if best[0]["fits_in_memory"]]
            times = [best[0][TIME] for best in alone if best[0]["fits_in_memory"]]
            np.testing.assert_allclose(np.array(y) / y[0], np.array(times) / times[0], rtol=1e-12)

    def test_the_unit_of_the_axis_is_that_of_the_numbers(self, scaling):
        plot, found = scaling
        unit = {"training time (s)": 1.0, "training time (hours)": HOUR, "training time (days)": DAY}
        size = unit[plot.axes[0].get_ylabel()]
        best = {(rows[0]["number_of_accelerators"], rows[0]["system"]): rows[0][TIME] for rows in found.groups.values()}
        for system in SYSTEMS:
            x, y = lines_of(plot.axes[0])[system]
            assert [value * size for value in y] == pytest.approx([best[n, system] for n in x], rel=1e-12)
        assert plot.axes[1].get_ylabel() == "memory per accelerator (GB)"

    def test_the_bands_hold_the_best_few(self, scaling):
        plot, found = scaling
        for panel, name in zip(plot.axes, (TIME, MEMORY), strict=True):
            for system, band in zip(SYSTEMS, panel.collections, strict=True):
                y = band.get_paths()[0].vertices[:, 1]
                rows = [row for rows in found.groups.values() for row in rows if row["system"] == system]
                values = [row[name] for row in rows]
                assert y.max() / y.min() == pytest.approx(max(values) / min(values), rel=1e-12)

    def test_the_ideal_halves_the_time_with_twice_the_accelerators(self, scaling):
        x, y = next(v for label, v in lines_of(scaling[0].axes[0]).items() if label.startswith("ideal"))
        assert x[0] * y[0] == pytest.approx(x[1] * y[1])

    def test_more_lines_than_can_be_told_apart_are_refused(self):
        rows = [[{"number_of_accelerators": 8.0, "system": str(n), TIME: 1.0, MEMORY: 1.0}] for n in range(20)]
        with pytest.raises(AmpedError, match="20 lines"):
            figure(Drawing("scaling", ("number_of_accelerators", "system")), rows, (), TIME, "")


class TestParts:
    def test_the_bars_are_the_parts_of_the_step_of_the_best(self):
        plot, found, _ = drawn("parts", along=["tensor_parallel_degree"])
        rows = sorted((rows[0] for rows in found.groups.values()), key=lambda row: row["tensor_parallel_degree"])
        shares = plot.axes[1]
        tops = [sum(bars[place].get_height() for bars in shares.containers) for place in range(len(rows))]
        assert tops == pytest.approx([100.0] * len(rows))
        forward = next(bars for bars in shares.containers if bars.get_label() == "compute forward")
        assert [bar.get_height() for bar in forward] == pytest.approx(
            [100 * row["compute_forward_time"] / row["step_time"] for row in rows]
        )
        labels = [label.get_text().split("\n")[0] for label in shares.get_xticklabels()]
        assert labels == [f"{row['tensor_parallel_degree']:g}" for row in rows]

    def test_steps_that_differ_little_are_stacked_in_seconds(self):
        plot, found, _ = drawn("parts", {"sequence_parallel": [True, False]})
        tops = [sum(bars[place].get_height() for bars in plot.axes[0].containers) for place in (0, 1)]
        best = {row[0]["sequence_parallel"]: row[0]["step_time"] for row in found.groups.values()}
        assert tops[0] / tops[1] == pytest.approx(best[0.0] / best[1.0])
        assert [t.get_text().split("\n")[0] for t in plot.axes[1].get_xticklabels()] == ["no", "yes"]

    def test_steps_that_differ_much_are_a_line_on_a_logarithmic_axis(self):
        rows = [[row | {"number_of_accelerators": 16.0 * n, "step_time": row["step_time"] / n}]
                for n in (1, 4, 16) for row in amped.explore(SMALL, top=1).best]  # fmt: skip
        plot = figure(Drawing("parts", ("number_of_accelerators",)), rows, (), TIME, "")
        assert plot.axes[0].get_yscale() == "log"
        y = plot.axes[0].get_lines()[0].get_ydata()
        assert list(y / y[-1]) == pytest.approx([16, 4, 1])

    def test_too_many_bars_are_refused(self):
        rows = [[{"batch_size": float(n)}] for n in range(50)]
        with pytest.raises(AmpedError, match="50 bars"):
            figure(Drawing("parts", ("batch_size",)), rows, (), TIME, "")


class TestHeatMap:
    vary = {"memory_bandwidth": [1e12, 2e12, 4e12], "inter_node_bandwidth": [1e10, 1e11]}  # noqa: RUF012

    def test_each_cell_is_the_best_of_its_pair(self):
        plot, _, _ = drawn("heatmap", self.vary)
        grid = np.asarray(plot.axes[0].images[0].get_array())
        assert grid.shape == (2, 3)
        own = [[amped.explore(SMALL, memory_bandwidth=x, inter_node_bandwidth=y, space="degrees", top=1).best[0][TIME]
                for x in self.vary["memory_bandwidth"]] for y in self.vary["inter_node_bandwidth"]]  # fmt: skip
        np.testing.assert_allclose(grid / grid[0, 0], np.array(own) / own[0][0], rtol=1e-12)
        assert [t.get_text() for t in plot.axes[0].get_xticklabels()] == ["1 TB/s", "2 TB/s", "4 TB/s"]
        assert [t.get_text() for t in plot.axes[0].get_yticklabels()] == ["10 GB/s", "100 GB/s"]

    def test_the_best_of_all_has_the_star(self):
        plot, _, _ = drawn("heatmap", self.vary)
        grid = np.asarray(plot.axes[0].images[0].get_array())
        stars = [text.get_position() for text in plot.axes[0].texts if "*" in text.get_text()]
        assert stars == [tuple(reversed(np.unravel_index(grid.argmin(), grid.shape)))]

    def test_of_what_is_better_when_larger_the_largest_has_the_star(self):
        plot, _, _ = drawn("heatmap", self.vary, objective="model_flops_utilization")
        grid = np.asarray(plot.axes[0].images[0].get_array())
        stars = [text.get_position() for text in plot.axes[0].texts if "*" in text.get_text()]
        assert stars == [tuple(reversed(np.unravel_index(grid.argmax(), grid.shape)))]

    def test_pairs_of_which_nothing_fits_are_empty(self):
        plot, found, _ = drawn("heatmap", along=["tensor_parallel_degree", "pipeline_parallel_degree"])
        grid = np.ma.filled(plot.axes[0].images[0].get_array(), np.nan)
        assert np.count_nonzero(~np.isnan(grid)) == len(found.groups) < grid.size
        assert "hatched" in plot.get_suptitle()


def test_the_front_is_drawn_as_it_was_found() -> None:
    plot, found, wanted = drawn("pareto")
    points = plot.axes[0].get_lines()[1]
    rows = sorted(found.front, key=lambda row: row[TIME])
    assert wanted.front == (TIME, MEMORY)
    assert list(points.get_ydata()) == pytest.approx([row[MEMORY] / 1e9 for row in rows])
    x = points.get_xdata()
    assert list(x / x[0]) == pytest.approx([row[TIME] / rows[0][TIME] for row in rows])


class TestTheChoice:
    @pytest.mark.parametrize(("swept", "along", "front", "kind", "names"), [
        ([], [], None, "heatmap", ("tensor_parallel_degree", "pipeline_parallel_degree")),
        (["zero_stage"], [], None, "parts", ("zero_stage",)),
        (["zero_stage", "batch_size"], [], None, "heatmap", ("zero_stage", "batch_size")),
        (["system", "number_of_accelerators"], [], None, "scaling", ("number_of_accelerators", "system")),
        (["number_of_nodes"], [], None, "scaling", ("number_of_nodes",)),
        (["number_of_accelerators"], [], ("cost", "step_time"), "pareto", ()),
        (["system"], ["number_of_accelerators", "batch_size"], None, "scaling", ("number_of_accelerators", "batch_size")),
    ])  # fmt: skip
    def test_what_was_swept_says_what_is_drawn(self, swept, along, front, kind, names):
        found = drawing("auto", swept, along, front)
        assert (found.kind, found.names) == (kind, names)

    def test_one_swept_name_has_the_tensor_degree_as_the_other_side(self):
        assert drawing("heatmap", ["zero_stage"], [], None).names == ("zero_stage", "tensor_parallel_degree")

    @pytest.mark.parametrize(
        ("kind", "along", "told"), [("scaling", [], "several sizes"), ("heatmap", ["a", "b", "c"], "names 3")]
    )
    def test_a_plot_that_needs_another_sweep_says_which(self, kind, along, told):
        with pytest.raises(AmpedError, match=told):
            drawing(kind, [], along, None)


class TestTheCommand:
    @pytest.fixture
    def small(self, tmp_path: Path) -> Path:
        path = tmp_path / "small.json"
        path.write_text(json.dumps(SMALL), "utf-8")
        return path

    def test_a_bare_plot_is_written_under_its_kind_and_date(self, small, tmp_path):
        done = command("explore", "-c", small, "--plot", "--vary", "memory_bandwidth=1e12,2e12", folder=tmp_path)
        assert done.returncode == 0, done.stderr
        written = list((tmp_path / "output_files").iterdir())
        assert [path.name[20:] for path in written] == ["explore_parts.png"]
        assert written[0].read_bytes().startswith(b"\x89PNG")
        assert written[0].name in done.stderr
        assert "best of" not in done.stdout, "the groups of a plot are not printed"

    def test_output_dir_takes_the_plot_too(self, small, tmp_path):
        folder = tmp_path / "mine"
        verb("explore", "-c", small, "--output-dir", folder, "--plot", "pareto")
        assert sorted(path.name[20:] for path in folder.iterdir()) == ["explore.txt", "explore_pareto.png"]

    def test_groups_that_do_not_suit_the_plot_are_refused(self, small):
        with pytest.raises(AmpedError, match="--each asks for another"):
            verb(
                "explore", "-c", small, "--plot", "heatmap", "--along", "zero_stage,batch_size", "--each", "zero_stage"
            )

    def test_nothing_feasible_is_told_and_not_drawn(self, small, tmp_path, monkeypatch):
        # Tries many mappings: tests/cli/test_cli.py.
        monkeypatch.setattr("amped.exploration.answer.smallest_change", lambda _: "less")
        done = command(
            "explore", "-c", small, "--space", "degrees", "--set", "memory_capacity=1 MB", "--plot", folder=tmp_path
        )
        assert done.returncode == 2
        assert "no candidate is feasible" in done.stderr
        assert list(tmp_path.iterdir()) == [small]


def test_a_figure_leaves_no_window_and_makes_the_same_image_again() -> None:
    import matplotlib.pyplot as plt

    before = plt.get_fignums()  # another test of this process may have left some
    plot, _, _ = drawn("pareto")
    assert as_image(plot) == as_image(plot)
    assert plt.get_fignums() == before


class TestCosts:
    def test_each_line_is_a_system_with_its_cost_over_its_days(self):
        rows = [[{"number_of_accelerators": 8.0 * n, "system": system, TIME: DAY * 10 / n, "cost": price * (1e6 + n)}]
                for system, price in (("A", 1), ("B", 2)) for n in (1, 2)]  # fmt: skip
        plot = figure(Drawing("cost", ("number_of_accelerators", "system")), rows, (), TIME, "")
        lines = lines_of(plot.axes[0])
        assert lines["A"] == ([10.0, 5.0], pytest.approx([1.000001, 1.000002]))
        assert lines["B"][1] == pytest.approx([2.000002, 2.000004])
        assert [text.get_text() for text in plot.axes[0].texts] == ["8", "16", "8", "16"]
        assert plot.axes[0].get_ylabel() == "cost (million USD)"

    def test_without_a_price_and_without_sizes_there_is_no_plot(self):
        with pytest.raises(AmpedError, match="no price"):
            figure(
                Drawing("cost", ("number_of_accelerators",)),
                [[{"number_of_accelerators": 8.0, TIME: 1.0}]],
                (),
                TIME,
                "",
            )
        with pytest.raises(AmpedError, match="a plot of cost needs machines of several sizes"):
            drawing("cost", ["system"], (), None)


def test_a_plot_of_costs_across_lists_is_refused(tmp_path: Path) -> None:
    sweep = ("--vary", "system=DGX H100,MI355X platform (8x)", "--vary", "gpus=8,16", "--space", "quick")
    done = command("explore", "--model", "Llama 3 8B", *sweep, "--plot", "cost", folder=tmp_path)
    assert done.returncode == 2
    assert "costs are not compared" in done.stderr
