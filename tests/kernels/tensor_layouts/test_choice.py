"""The choice of layouts: exact, against brute force and the published shortest paths; tables and plans as files."""

import json
from itertools import product

import pytest

from amped.base.errors import AmpedError, ConfigError, FileError
from amped.kernels.layer_shape import Dimensions
from amped.kernels.tensor_layouts.exact import select, solve_exact
from amped.kernels.tensor_layouts.graph import InfeasibleError, Relation, consistent, lower_bound, relations, time_of
from amped.kernels.tensor_layouts.plan import Plan, read_plan, row_major, shipped_plans, write_plan, written
from amped.kernels.tensor_layouts.spec import ENCODER, LAYERS
from amped.kernels.tensor_layouts.table import Table, read_table
from amped.kernels.tensor_layouts.variables import ROW_MAJOR, domain
from tests.helpers.published_paths import FORWARD_CHAIN, PUBLISHED_SPLITS, STRATEGIES, solve_by_paths, solve_path
from tests.helpers.tensor_layouts import MEASURED, SMALL, chosen, random_plan, random_relations, random_table

SPLIT = ("X", "KKQQVV", "SB1")


@pytest.mark.parametrize("seed", range(2))
@pytest.mark.parametrize("names", [("lin1", "bad", "lin2"), ("QKT", "softmax"), ("dXlin2", "dWlin2", "bdrlb")])
def test_the_exact_choice_is_that_of_brute_force(names, seed):
    given = [relation for relation in random_relations(seed) if relation.name in names]
    domains = {name: domain(name) for relation in given for name in relation.variables}
    best = min(time_of(given, dict(zip(domains, choice, strict=True))) for choice in product(*domains.values()))
    assert time_of(given, solve_exact(given)) == pytest.approx(best, rel=1e-12)


@pytest.mark.parametrize("seed", range(3))
def test_no_other_plan_is_faster_and_none_beats_the_lower_bound(seed):
    given = random_relations(seed)
    best = time_of(given, solve_exact(given))
    assert lower_bound(given) <= best
    others = [time_of(given, random_plan(other).layouts) for other in range(4)]
    assert best <= min(others) < float("inf")


@pytest.mark.thorough
def test_shortest_paths_are_never_faster():
    given = random_relations(0)
    best = time_of(given, solve_exact(given))
    found = {}
    for strategy in STRATEGIES:
        try:
            found[strategy] = time_of(given, solve_by_paths(given, strategy, SPLIT))
        except InfeasibleError:
            continue
    assert "bp_first" in found
    assert all(best <= time * (1 + 1e-12) < float("inf") for time in found.values())


@pytest.mark.thorough
@pytest.mark.parametrize("split", PUBLISHED_SPLITS, ids=" ".join)
@pytest.mark.parametrize("strategy", ["bp_first", "fp_first"])
def test_published_strategies_run_with_their_own_names_of_tensors(strategy, split):
    """Of published names, LN1 has the layout of SB1, and LN2 and LIN2 that of X."""
    given = random_relations(0)
    best = time_of(given, solve_exact(given))
    assert best <= time_of(given, solve_by_paths(given, strategy, split)) * (1 + 1e-12) < 1.2 * best


@pytest.mark.thorough
@pytest.mark.parametrize("seed", range(2))
def test_a_forward_path_is_exact_once_what_it_skips_is_split(seed):
    """Residual connections and values bypass the chain: with their layouts bound, nothing is left to be forgotten."""
    given = consistent([r for r in random_relations(seed) if r.name in {o.name for o in ENCODER if o.forward}])
    options = [sorted({c[0] for r in given if n in r.variables for c in r.seen_on((n,))}) for n in SPLIT]
    best = float("inf")
    for choice in product(*options):
        bound = dict(zip(SPLIT, choice, strict=True))
        try:
            layouts = solve_path(given, FORWARD_CHAIN, bound)
        except InfeasibleError:
            continue
        best = min(best, time_of(given, solve_exact([*given, *chosen(bound | layouts)])))
    assert best == pytest.approx(time_of(given, solve_exact(given)), rel=1e-12)


def test_a_path_that_forgets_what_the_other_chose_may_fit_no_layer():
    with pytest.raises(InfeasibleError, match="combined finds no plan"):
        solve_by_paths(random_relations(0), "combined")


def test_the_operator_that_blocks_is_named():
    table = random_table(0)
    without = Table(table.dimensions, table.measured, [row for row in table.rows if row["op"] != "softmax"])
    with pytest.raises(InfeasibleError, match="no row of softmax"):
        select(without)
    lonely = [row for row in table.rows if row["op"] != "lin2" or row["layouts"]["DROP2"] == "bju"]
    lonely = [row for row in lonely if row["op"] != "bad" or row["layouts"]["DROP2"] == "jbu"]
    with pytest.raises(InfeasibleError, match=r"(bad|lin2) has no row that agrees with \w+ on"):
        select(Table(table.dimensions, table.measured, lonely))


def test_relations_that_agree_by_pairs_but_not_at_once_are_refused():
    """Three operators in a ring want two of three layouts to differ each: possible by pairs, not for two values."""
    ring = [
        Relation(n, v, {("a", "b"): 1.0, ("b", "a"): 1.0})
        for n, v in (("f", ("x", "y")), ("g", ("y", "z")), ("h", ("x", "z")))
    ]
    with pytest.raises(InfeasibleError, match="at once"):
        solve_exact(ring)


def test_a_plan_tells_what_it_predicts():
    table = random_table(1)
    plan = select(table)
    given = relations(table, ENCODER)
    assert plan.predicted_us == pytest.approx(time_of(given, plan.layouts))
    assert plan.predicted_us == pytest.approx(sum(row["time_us"] for row in plan.operators.values()))
    assert 0 <= plan.gap == pytest.approx(plan.predicted_us / lower_bound(given) - 1)


def test_fused_attention_is_chosen_for_as_well():
    plan = select(random_table(2, "sdpa"), attention="sdpa")
    assert set(plan.operators) == {o.name for o in LAYERS["sdpa"]}
    assert plan.predicted_us >= plan.lower_bound_us


# --- files ----------------------------------------------------------------------------------------------------------


def test_a_table_comes_back_from_its_file(tmp_path):
    table = random_table(3)
    again = read_table(table.write(tmp_path / "times.jsonl"))
    assert (again.rows, again.dimensions, again.measured) == (table.rows, table.dimensions, table.measured)
    assert len(table.to_csv().splitlines()) == len(table.rows) + 1


def test_tables_of_one_kind_are_merged_and_the_fastest_row_counts():
    table = random_table(3)
    faster = [row | {"time_us": row["time_us"] / 2, "impl": "better"} for row in table.rows[:5]]
    merged = table.merged(Table(SMALL, MEASURED, faster))
    assert [row["impl"] for row in merged.times(faster[0]["op"]).values()].count("better") == len(faster)
    with pytest.raises(ConfigError, match="not of one kind"):
        table.merged(Table(Dimensions(2, 6, 3, 12, 7), MEASURED, []))
    with pytest.raises(ConfigError, match="another device"):
        table.merged(Table(SMALL, MEASURED | {"device": "another device"}, []))


def test_every_wrong_row_of_a_file_is_told_by_its_line(tmp_path):
    table = random_table(0)
    rows = [
        {"op": "QTK"},
        table.rows[0] | {"time_us": -1.0},
        table.rows[0] | {"layouts": {"WKQV": "qphi", "X": "bij", "KQV": "qphbj"}},
    ]
    path = Table(SMALL, MEASURED, rows).write(tmp_path / "times.jsonl")
    with pytest.raises(FileError, match=r"3 problems") as refused:
        read_table(path)
    assert [problem.where for problem in refused.value.problems] == ["line 2", "line 3", "line 4"]


@pytest.mark.parametrize("content", ["", "{}", "[1]\n", '{"format": "amped layout times", "version": 9}', "nonsense"])
def test_a_file_that_is_no_table_is_refused(tmp_path, content):
    path = tmp_path / "times.jsonl"
    path.write_text(content, "utf-8")
    with pytest.raises(AmpedError, match=r"times\.jsonl"):
        read_table(path)


def test_a_plan_comes_back_from_its_file(tmp_path):
    plan = select(random_table(4))
    assert read_plan(write_plan(plan, tmp_path / "plan.json")) == plan


@pytest.mark.parametrize(
    ("change", "told"),
    [
        ({"format": "another"}, "no layout plan"),
        ({"version": 2}, "version 2"),
        ({"layouts": ROW_MAJOR | {"XX": "bji"}}, "no tensor 'XX'"),
        ({"layouts": {k: v for k, v in ROW_MAJOR.items() if k != "SB1"}}, "the layout of SB1 is missing"),
        ({"layouts": ROW_MAJOR | {"SB1": "bij"}}, "lin1 with layouts bij, ui → bju is not one GEMM"),
        ({"layouts": ROW_MAJOR | {"KKQQVV": "hqbjp"}}, "'hqbjp' is no layout of KKQQVV"),
        ({"dimensions": {"batch": 2, "seq": 5, "heads": 3, "hidden": 13}}, "not divisible by 3 heads"),
        ({"attention": "flash"}, "no kind of attention"),
        ({"layouts": 3}, "wrong type"),
    ],
)
def test_a_plan_that_cannot_be_run_is_refused(tmp_path, change, told):
    path = tmp_path / "plan.json"
    path.write_text(json.dumps(json.loads(written(row_major(SMALL))) | change), "utf-8")
    with pytest.raises(AmpedError, match=told) as refused:
        read_plan(path)
    assert refused.value.file.endswith("plan.json")


def test_shipped_plans_can_be_read_and_say_where_they_were_measured():
    assert shipped_plans() == ["b8-l512", "b96-l128"]
    for name in shipped_plans():
        plan = read_plan(name)
        assert (f"b{plan.dimensions.batch}-l{plan.dimensions.seq}", plan.dimensions.heads, plan.dimensions.hidden) == (
            name,
            16,
            1024,
        )
        assert {"device", "dtype", "torch", "date", "dropout", "flop_rate", "bandwidth"} <= set(plan.measured)
        assert set(plan.operators) == {o.name for o in ENCODER}
        assert plan.predicted_us == pytest.approx(sum(row["time_us"] for row in plan.operators.values()))
        assert plan.gap >= 0


def test_a_plan_without_times_has_no_gap():
    plan = Plan(SMALL, dict(ROW_MAJOR))
    assert (plan.gap, plan.seconds) == (None, {})
    with pytest.raises(ConfigError, match="no measured flop_rate"):
        _ = plan.ceilings
