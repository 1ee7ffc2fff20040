"""The joint axis: a hundred thousand valid tuples in one run, each cell what a run of its own would give."""

import subprocess
import sys
from collections.abc import Iterator
from functools import cache

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import amped
from amped.engine.axes import JointAxis
from amped.engine.evaluate import Results, gathered, run
from amped.engine.resolve import Plan
from amped.estimation.estimation import RESULTS
from amped.theory.language.catalogue import catalogue
from amped.theory.language.quantity import quantity
from tests.helpers.formulas import module_of, page
from tests.helpers.joint import BANDWIDTH, OPEN, TUPLES, alone, joint_columns, planned
from tests.helpers.places import ROOT

SAMPLED = 60
# Not a result, but it depends on tensor and pipeline degrees alone.
PARAMETERS = "non_expert_parameters_per_accelerator"


@cache
def the_run() -> tuple[Plan, dict[str, float], Results]:
    chosen, values = planned(catalogue(), (*RESULTS, PARAMETERS, *catalogue().constraints), tuple(OPEN))
    joint = JointAxis(joint_columns())
    return chosen, values, run(chosen, values, joint, OPEN, frozenset(chosen.targets))


def sampled() -> Iterator[tuple[int, int]]:
    draw = np.random.default_rng(2023)
    yield from ((int(draw.integers(TUPLES)), int(draw.integers(3))) for _ in range(SAMPLED))


@pytest.mark.thorough
def test_every_sampled_cell_of_a_grid_is_bit_for_bit_a_run_of_its_own() -> None:
    chosen, values, grid = the_run()
    assert grid.shape == (TUPLES, 3)
    whole = {name: grid.whole(name) for name in chosen.targets}
    unequal = set()
    for row, column in sampled():
        one = alone(chosen, values, row, {"memory_bandwidth": float(OPEN["memory_bandwidth"][column])})
        unequal |= {n for n in chosen.targets if whole[n][row, column].tobytes() != one[n].reshape(()).tobytes()}
    assert unequal == set()


def test_a_sampled_cell_is_what_amped_estimate_says() -> None:
    _, _, grid = the_run()
    keeps = np.logical_and.reduce([grid.whole(name) > 0 for name in catalogue().constraints if name in grid])
    assert keeps.any()
    assert not keeps.all()
    for row in np.flatnonzero(keeps[:, 0])[:: keeps[:, 0].sum() // 20]:
        mapping = {name: float(column[row]) for name, column in joint_columns().items()}
        single = amped.estimate("default", activation_recomputation="selective", memory_bandwidth=0.5e12, **mapping)
        found = {name: float(grid.whole(name)[row, 0]) for name in RESULTS}
        assert found == {name: single[name] for name in RESULTS}


@pytest.mark.thorough
def test_two_open_axes_beside_the_joint_one_are_bit_for_bit_runs_of_their_own() -> None:
    axes = OPEN | {BANDWIDTH: np.array([1e11, 3e11])}
    chosen, values = planned(catalogue(), RESULTS, tuple(axes))
    few = {name: column[::500] for name, column in joint_columns().items()}
    grid = run(chosen, values, JointAxis(few), axes)
    assert grid.shape == (TUPLES // 500, 3, 2)
    for row in range(0, TUPLES // 500, 10):
        for i, j in ((0, 0), (2, 1), (1, 0)):
            swept = {"memory_bandwidth": float(axes["memory_bandwidth"][i]), BANDWIDTH: float(axes[BANDWIDTH][j])}
            one = alone(chosen, values, 500 * row, swept)
            assert {n: float(grid.whole(n)[row, i, j]) for n in RESULTS} == {n: one.number(n) for n in RESULTS}


# --- each distinct combination once ---------------------------------------------------------------------------------


def distinct(*names: str) -> int:
    return len(np.unique(np.stack([joint_columns()[name] for name in names]), axis=1).T)


def pipeline_parts() -> tuple[str, str]:
    return "intra_node_pipeline_parallel_degree", "inter_node_pipeline_parallel_degree"


def test_a_quantity_of_a_few_joint_variables_is_computed_once_for_each_distinct_combination() -> None:
    _, _, grid = the_run()
    rows = {name: grid.cells[name][0].shape[-1] for name in (*RESULTS, PARAMETERS) if name in grid.cells}
    tensor = ("intra_node_tensor_parallel_degree", "inter_node_tensor_parallel_degree")
    assert rows["number_of_parameters"] == 1
    assert rows[PARAMETERS] == distinct(*pipeline_parts(), *tensor)
    assert rows[PARAMETERS] < TUPLES / 100
    assert rows["number_of_steps"] == distinct("batch_size")


def test_a_formula_sees_each_distinct_combination_and_no_more() -> None:
    seen: dict[str, int] = {}

    @quantity("count")
    def stage_layers(layers: np.ndarray, pipeline_parallel_degree: np.ndarray) -> np.ndarray:
        """Layers of a stage, counted. Source: test."""
        seen["stage_layers"] = pipeline_parallel_degree.size
        return layers / pipeline_parallel_degree

    @quantity("count")
    def minibatch_size(batch_size: np.ndarray, data_parallel_degree: np.ndarray) -> np.ndarray:
        """Sequences of a replica, counted. Source: test."""
        seen["minibatch_size"] = np.broadcast_arrays(batch_size, data_parallel_degree)[0].size
        return batch_size / data_parallel_degree

    counting = module_of(stage_layers, minibatch_size)
    chosen, values = planned(catalogue((counting,)), ("step_time",), tuple(OPEN))
    grid = run(chosen, values, JointAxis(joint_columns()), OPEN)
    data = ("intra_node_data_parallel_degree", "inter_node_data_parallel_degree")
    assert seen == {"stage_layers": distinct(*pipeline_parts()), "minibatch_size": distinct("batch_size", *data)}
    _, _, ours = the_run()
    assert grid.whole("step_time").tobytes() == ours.whole("step_time").tobytes()


def test_an_open_axis_costs_nothing_where_it_is_not_needed() -> None:
    _, _, grid = the_run()
    assert grid["memory_per_accelerator_bytes"].shape[1:] == (1,)
    assert grid["optimizer_time"].shape[1:] == (3,)


@pytest.mark.parametrize("body", ["return 3.0", "return 3.0 + 0 * weight_precision"])
def test_a_formula_may_leave_its_joint_arguments_unused(body: str) -> None:
    constant = page(f"""
@quantity("count")
def stage_layers(pipeline_parallel_degree, weight_precision):
    "Three. Source: test."
    {body}
""")
    chosen, values = planned(catalogue((constant,)), ("step_time",), ())
    few = {name: column[::1000] for name, column in joint_columns().items()}
    grid = run(chosen, values, JointAxis(few))
    assert grid.whole("step_time")[7] == alone(chosen, values, 7000, {}).number("step_time")


# --- the axis itself ------------------------------------------------------------------------------------------------

ROWS = st.integers(1, 60).flatmap(
    lambda n: st.lists(st.lists(st.integers(0, 4), min_size=n, max_size=n), min_size=1, max_size=5)
)


def weighed(axis: JointAxis, names: list[str]) -> tuple[np.ndarray, int]:
    """A number for each combination of some variables, computed as the evaluator does, and its mask."""
    mask, held = 0, [axis.column(name) for name in names]
    for _, own in held:
        mask |= own
    mask = axis.settled(mask)
    values = [gathered(axis, data, own, mask) for data, own in held]
    return sum(data * 10.0**place for place, data in enumerate(values)), mask  # type: ignore[return-value]


@pytest.mark.thorough
@given(ROWS, st.data())
@settings(deadline=None)
def test_what_is_computed_for_distinct_combinations_is_gathered_as_by_direct_indexing(
    columns: list[list[int]], data: st.DataObject
) -> None:
    axis = JointAxis({str(place): np.array(column, dtype=np.float64) for place, column in enumerate(columns)})
    names = data.draw(st.lists(st.sampled_from(sorted(axis.columns)), min_size=1, unique=True))
    values, mask = weighed(axis, names)
    direct = sum(axis.columns[name] * 10.0**place for place, name in enumerate(names))
    np.testing.assert_array_equal(gathered(axis, values, mask, axis.full), direct)
    more = data.draw(st.sets(st.sampled_from(sorted(axis.columns)))) | set(names)
    wider, wide = weighed(axis, sorted(more))
    spread = gathered(axis, values, mask, wide)
    assert np.broadcast_shapes(spread.shape, wider.shape) == wider.shape
    np.testing.assert_array_equal(gathered(axis, spread, wide, axis.full), direct)


@pytest.mark.thorough
@given(ROWS, st.data())
@settings(deadline=None)
def test_no_combination_is_computed_twice_where_that_saves_half_of_the_work(
    columns: list[list[int]], data: st.DataObject
) -> None:
    axis = JointAxis({str(place): np.array(column, dtype=np.float64) for place, column in enumerate(columns)})
    names = data.draw(st.lists(st.sampled_from(sorted(axis.columns)), min_size=1, unique=True))
    values, mask = weighed(axis, names)
    combinations = len(set(zip(*(axis.columns[name] for name in names), strict=True)))
    assert len(values) == axis.length(mask)
    if len(names) < len(axis.columns) and combinations <= axis.size / 2:
        assert len(values) == combinations
    else:
        assert len(values) in (combinations, axis.size)


@given(st.integers(2, 40), st.integers(1, 7))
@settings(max_examples=25, deadline=None)
def test_more_variables_than_one_integer_can_tell_apart_are_told_apart(levels: int, seed: int) -> None:
    draw = np.random.default_rng(seed)
    # Sixteen columns of up to 2000 levels span far more codes than 64 bits hold.
    few = draw.integers(0, 2000, size=(16, levels)).astype(np.float64)
    rows = draw.integers(0, levels, size=50 * levels)
    columns = {str(place): column[rows] for place, column in enumerate(few)}
    axis = JointAxis(columns | {"own": np.arange(len(rows) * 1.0)})
    values, mask = weighed(axis, [str(place) for place in range(16)])
    assert axis.length(mask) == len(np.unique(few[:, np.unique(rows)], axis=1).T)
    direct = sum(few[place][rows] * 10.0**place for place in range(16))
    np.testing.assert_array_equal(gathered(axis, values, mask, axis.full), direct)


# --- memory ---------------------------------------------------------------------------------------------------------

MEASURED = """
import sys
sys.path.insert(0, sys.argv[1])
from tests.engine import test_joint_axis as t
t.the_run()
print(int(next(line.split()[1] for line in open("/proc/self/status") if line.startswith("VmHWM"))))
"""


@pytest.mark.thorough
@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="kilobytes of resident memory are Linux's")
def test_the_run_of_all_tuples_takes_less_than_a_gibibyte() -> None:
    command = [sys.executable, "-c", MEASURED, str(ROOT)]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert int(done.stdout) * 1024 < 2**30
