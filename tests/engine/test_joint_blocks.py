"""The joint axis block by block: the same cells, bit for bit, whatever the blocks and what is told apart in them."""

from collections.abc import Iterator

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from amped.base.errors import EvaluationError
from amped.engine.axes import WORTHWHILE, JointAxis, JointBlock
from amped.engine.evaluate import Results, gathered, run, run_in_blocks
from amped.estimation.estimation import RESULTS
from amped.exploration import mappings, search
from amped.theory.language.catalogue import Catalogue, catalogue
from tests.helpers.explore import EVERYTHING, SMALL, explore, explored
from tests.helpers.formulas import page
from tests.helpers.joint import BANDWIDTH, OPEN, TUPLES, alone, joint_columns, planned

EVERY = 20
FEW = TUPLES // EVERY
TWO_AXES = OPEN | {BANDWIDTH: np.array([1e11, 3e11])}


def few(every: int = EVERY) -> dict[str, np.ndarray]:
    return {name: column[::every] for name, column in joint_columns().items()}


def in_blocks(
    axes: dict[str, np.ndarray], rows: int, worthwhile: float = WORTHWHILE, known: Catalogue | None = None
) -> Iterator[Results]:
    chosen, values = planned(known or catalogue(), RESULTS, tuple(axes))
    return run_in_blocks(chosen, values, JointAxis(few(), worthwhile), axes, frozenset(RESULTS), rows)


def together(blocks: Iterator[Results]) -> dict[str, np.ndarray]:
    held: dict[str, list[np.ndarray]] = {name: [] for name in RESULTS if name not in ("energy", "cost")}
    for block in blocks:
        for name, parts in held.items():
            parts.append(block.whole(name).copy())
    return {name: np.concatenate(parts) for name, parts in held.items()}


def unequal(one: dict[str, np.ndarray], other: dict[str, np.ndarray]) -> list[str]:
    assert one.keys() == other.keys()
    return [name for name in one if one[name].tobytes() != other[name].tobytes()]


@pytest.fixture(scope="module")
def whole() -> dict[str, np.ndarray]:
    """The results of one run over all rows."""
    chosen, values = planned(catalogue(), RESULTS, tuple(TWO_AXES))
    grid = run(chosen, values, JointAxis(few()), TWO_AXES, frozenset(RESULTS))
    return {name: grid.whole(name) for name in RESULTS if name in grid}


def test_blocks_are_successive_rows_and_the_last_may_be_shorter() -> None:
    shapes = [block.shape for block in in_blocks(TWO_AXES, 1999)]
    assert shapes == [(1999, 3, 2), (1999, 3, 2), (FEW - 2 * 1999, 3, 2)]
    assert [block.shape for block in in_blocks({}, FEW + 1)] == [(FEW,)]


@pytest.mark.parametrize("rows", [1999, 2500, FEW, 10 * FEW])
def test_results_in_blocks_are_bit_for_bit_those_of_one_run(whole: dict[str, np.ndarray], rows: int) -> None:
    assert unequal(together(in_blocks(TWO_AXES, rows)), whole) == []


@pytest.mark.parametrize("worthwhile", [0.0, 0.001, 0.1, 1.0])
def test_what_is_worth_telling_apart_changes_no_result(whole: dict[str, np.ndarray], worthwhile: float) -> None:
    assert unequal(together(in_blocks(TWO_AXES, 1777, worthwhile)), whole) == []


def test_rows_in_any_order_give_the_same_results(whole: dict[str, np.ndarray]) -> None:
    """Shuffled, no variable is steady; in order of the last column, another is."""
    order = np.random.default_rng(7).permutation(FEW)
    chosen, values = planned(catalogue(), RESULTS, tuple(TWO_AXES))
    for places in (order, np.argsort(few()["microbatch_size"], kind="stable")):
        axis = JointAxis({name: column[places] for name, column in few().items()}, 0.1)
        blocks = run_in_blocks(chosen, values, axis, TWO_AXES, frozenset(RESULTS), 1999)
        assert unequal(together(blocks), {name: data[places] for name, data in whole.items()}) == []


def test_every_cell_of_a_block_is_bit_for_bit_a_run_of_its_own() -> None:
    chosen, values = planned(catalogue(), RESULTS, tuple(TWO_AXES))
    draw, differing = np.random.default_rng(11), set()
    names = [name for name in RESULTS if name not in ("energy", "cost")]
    for number, block in enumerate(in_blocks(TWO_AXES, 1999, 0.1)):
        for row in draw.integers(block.shape[0], size=8):
            i, j = (int(draw.integers(n)) for n in (3, 2))
            swept = {"memory_bandwidth": float(OPEN["memory_bandwidth"][i]), BANDWIDTH: float(TWO_AXES[BANDWIDTH][j])}
            one = alone(chosen, values, (1999 * number + int(row)) * EVERY, swept)
            differing |= {n for n in names if block.whole(n)[row, i, j].tobytes() != one[n].reshape(()).tobytes()}
    assert differing == set()


def test_what_depends_on_few_variables_is_computed_once_and_the_rest_in_each_block() -> None:
    calls: dict[str, list[int]] = {"stage_layers": [], "step_time": []}
    counting = page("""
@quantity("count")
def stage_layers(layers, pipeline_parallel_degree):
    "Layers of a stage, counted. Source: test."
    CALLS["stage_layers"].append(pipeline_parallel_degree.size)
    return layers / pipeline_parallel_degree

@quantity("s")
def step_time(batch_size, microbatch_size, data_parallel_degree, tensor_parallel_degree, optimizer_time):
    "Of nearly every variable, counted. Source: test."
    CALLS["step_time"].append(batch_size.size)
    return batch_size / microbatch_size / data_parallel_degree / tensor_parallel_degree + optimizer_time
""")
    counting.CALLS = calls  # type: ignore[attr-defined]
    found = together(in_blocks({}, 2000, 0.1, catalogue((counting,))))
    pipelines = np.unique([few()[f"{place}_node_pipeline_parallel_degree"] for place in ("intra", "inter")], axis=1)
    assert calls == {"stage_layers": [pipelines.shape[1]], "step_time": [2000, 2000, 1000]}
    assert unequal(found, together(in_blocks({}, 700, 0.0, catalogue((counting,))))) == []


@pytest.mark.parametrize("body", ["return 3.0", "return 3.0 + 0 * weight_precision"])
def test_a_formula_may_leave_its_joint_arguments_unused(body: str) -> None:
    constant = page(f"""
@quantity("count")
def stage_layers(pipeline_parallel_degree, microbatch_size, weight_precision):
    "Three. Source: test."
    {body}
""")
    chosen, values = planned(catalogue((constant,)), ("step_time",), ())
    for worthwhile in (0.0, WORTHWHILE):
        axis = JointAxis(few(1000), worthwhile)
        times = [b.whole("step_time") for b in run_in_blocks(chosen, values, axis, {}, frozenset({"step_time"}), 33)]
        assert np.concatenate(times)[71] == alone(chosen, values, 71_000, {}).number("step_time")


def test_a_formula_that_fails_in_a_block_is_named() -> None:
    failing = page("""
@quantity("s")
def optimizer_time(microbatch_size, tensor_parallel_degree):
    "Fails. Source: test."
    raise KeyError("color")
""")
    with pytest.raises(EvaluationError, match="the formula of 'optimizer_time' failed"):
        together(in_blocks({}, 1000, known=catalogue((failing,))))


@pytest.mark.thorough
@pytest.mark.parametrize(("block", "chunk"), [(1, 10**6), (7, 50), (16, 1)])
def test_the_best_of_an_exploration_do_not_depend_on_its_blocks(
    monkeypatch: pytest.MonkeyPatch, block: int, chunk: int
) -> None:
    monkeypatch.setattr(search, "BLOCK_CELLS", block)
    monkeypatch.setattr(search, "PART_CELLS", chunk)
    monkeypatch.setattr(mappings, "CHUNK_ROWS", chunk)
    found = explore(SMALL, top=EVERYTHING)
    assert found.best == explored().best
    assert (found.candidates, found.feasible, found.removed) == (
        explored().candidates, explored().feasible, explored().removed,
    )  # fmt: skip


# --- the axis and its blocks ----------------------------------------------------------------------------------------

LEVELS = (-1.5, 0.0, 0.25, 1.0, 3.0, 1e9, 2.0**60)


@st.composite
def columns(draw: st.DrawFn) -> dict[str, np.ndarray]:
    """Steady and unsteady variables: values held over runs of rows, repeated in turn, or drawn for each row."""
    size = draw(st.sampled_from([1, 2, 60, 2049, 5000]))
    random = np.random.default_rng(draw(st.integers(0, 2**16)))
    found = {}
    for number, kind in enumerate(
        draw(st.lists(st.sampled_from(["held", "turned", "drawn", "own"]), min_size=1, max_size=5))
    ):
        levels = np.array(draw(st.lists(st.sampled_from(LEVELS), min_size=1, max_size=4)))
        places = {
            "held": np.repeat(np.arange(size), draw(st.sampled_from([1, 7, 100])))[:size],
            "turned": np.arange(size),
            "drawn": random.integers(0, len(levels), size),
            "own": np.arange(size),
        }[kind]
        found[str(number)] = np.arange(size) * 0.5 if kind == "own" else levels[places % len(levels)]
    return found


def column(axis: JointAxis | JointBlock, name: str) -> tuple[np.ndarray, int]:
    """The values of a variable as a block of the run has them: its own rows where there is one for each."""
    if isinstance(axis, JointAxis):
        return axis.column(name)
    data, mask = axis.whole.column(name)
    return (data[axis.rows] if mask == axis.full else data), mask


def combined(axis: JointAxis | JointBlock, names: list[str]) -> tuple[np.ndarray, int]:
    """A pair of numbers for each combination of some variables, computed as the evaluator does, and its mask."""
    mask, held = 0, [column(axis, name) for name in names]
    for _, own in held:
        mask |= own
    mask = axis.settled(mask)
    return np.stack([gathered(axis, data, own, mask) * np.ones(axis.length(mask)) for data, own in held]), mask


@pytest.mark.thorough
@given(columns(), st.sampled_from([0.0, 0.1, 0.5, 1.0]), st.data())
@settings(max_examples=200, deadline=None)
def test_rows_gathered_from_distinct_combinations_are_the_rows_themselves(
    given_columns: dict[str, np.ndarray], worthwhile: float, data: st.DataObject
) -> None:
    whole_axis, size = JointAxis(given_columns, worthwhile), len(given_columns["0"])
    start = data.draw(st.integers(0, size - 1))
    block = JointBlock(whole_axis, start, start + data.draw(st.integers(1, size)))
    assert block.size == min(block.rows.stop, size) - start > 0
    names = data.draw(st.lists(st.sampled_from(sorted(given_columns)), min_size=1, unique=True))
    direct = np.stack([given_columns[name] for name in names])
    for axis, expected in ((whole_axis, direct), (block, direct[:, start : start + block.size])):
        values, mask = combined(axis, names)
        assert values.shape[-1] == axis.length(mask)
        np.testing.assert_array_equal(gathered(axis, values, mask, axis.full), expected)


@pytest.mark.thorough
@given(columns(), st.sampled_from([0.0, 0.1, 0.5, 1.0]), st.data())
@settings(max_examples=200, deadline=None)
def test_no_more_is_told_apart_than_is_worthwhile_and_each_combination_once(
    given_columns: dict[str, np.ndarray], worthwhile: float, data: st.DataObject
) -> None:
    axis = JointAxis(given_columns, worthwhile)
    names = data.draw(st.lists(st.sampled_from(sorted(given_columns)), min_size=1, unique=True))
    values, mask = combined(axis, names)
    if mask != axis.full:
        distinct = len(np.unique(np.stack([given_columns[name] for name in names], axis=1), axis=0))
        assert distinct <= values.shape[-1] <= worthwhile * axis.size
        if mask == sum(axis.masks[name] for name in names):
            assert np.unique(values, axis=1).shape[-1] == values.shape[-1] == distinct
