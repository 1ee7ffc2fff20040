"""What `amped explore` searches, how many candidates that is, and that each is an estimate of its own."""

import itertools
import json
import math
import pickle
import random
from functools import cache

import pytest

import amped
from amped.base.errors import AmpedError, ConfigError
from amped.configuring.config import Config
from amped.configuring.scenario import read_scenario
from amped.exploration import answer, asked_space
from amped.exploration.answer import Exploration
from amped.exploration.identity import fingerprint, portable
from amped.exploration.request import Options, Request
from amped.exploration.results import ALL, Finding, front_of, merged
from amped.exploration.running import evaluated, found_in
from amped.exploration.search import Search
from tests.helpers.explore import EVERYTHING, SMALL, Row, divisors, explore, read

GPT3 = {"model": "GPT-3 175B", "system": "DGX A100", "number_of_accelerators": 1024, "batch_size": 1536}
# More mappings than a space of the small machine has.
ALL_OF_THEM = 100_000
SWITCHES = ("zero_stage", "sequence_parallel", "activation_recomputation")


@cache
def default_config() -> Config:
    return amped.load_config("default")


@cache
def gpt3() -> Exploration:
    return amped.explore(default_config(), top=100, **GPT3)


@cache
def small() -> Exploration:
    """Every feasible candidate of the default space of 16 accelerators, and what does not fit as well."""
    return amped.explore(SMALL, memory_capacity="1 PB", top=EVERYTHING)


def searching(config: object = SMALL, vary: dict[str, tuple[object, ...]] | None = None, **options: object) -> Request:
    question = read_scenario(config, options.pop("overrides", {})).question  # type: ignore[arg-type]
    return Request(question, vary or {}, Options(**options))  # type: ignore[arg-type]


# --- counts ----------------------------------------------------------------------------------------------------------


def counted_one_by_one() -> int:
    """The default space of GPT-3 in plain loops: 96 layers and heads, sequences of 2048 tokens, batches of 1536."""
    count = 0
    for tensor, pipeline, context in itertools.product(divisors(1024), divisors(1024), divisors(16)):
        if 1024 % (tensor * pipeline * context) or 96 % tensor or 96 % pipeline or 2048 % context:
            continue
        replicas = 1024 // (tensor * pipeline * context)
        for size in [d for d in divisors(1536 // replicas) if d <= 16] if 1536 % replicas == 0 else ():
            rounds = pipeline > 1 and 1536 // replicas // size % pipeline == 0
            chunks = len(divisors(96 // pipeline)) if rounds else 1
            sharding = 4 if pipeline == 1 else 3  # weights are not sharded within stages
            count += (
                chunks * 3 * sharding * (2 if tensor > 1 else 1) * 2
            )  # recomputation, sequence parallelism, attention
    return count


def test_the_default_space_of_gpt3_has_194286_candidates() -> None:
    assert counted_one_by_one() == gpt3().candidates == 194_286


def test_the_full_space_of_gpt3_has_all_but_what_is_shown_to_be_no_better() -> None:
    """36.3 million with both kinds of attention and both switches of data-parallel overlap.

    Overlap is on in all, as it only hides messages. Attention of single kernels is tried where the fused kernel takes
    longer or keeps more, as under selective recomputation.
    """
    search = Search(searching("default", space="full", overrides=GPT3))
    every = 18_164_352 * 2
    assert every / 4 < sum(part.candidates for part in search.parts) < every / 2


def test_a_part_is_no_larger_than_it_should_be_and_is_plain() -> None:
    search = Search(searching("default", space="full", overrides=GPT3))
    assert max(part.candidates for part in search.parts) <= 2**22
    assert [part.number for part in search.parts] == list(range(len(search.parts)))
    assert pickle.loads(pickle.dumps(search.parts)) == search.parts


def test_what_is_set_is_held_and_what_is_listed_is_all_that_is_tried() -> None:
    found = explore(SMALL, space="default", zero_stage=1, tensor_parallel_degree=4, top=EVERYTHING,
                    vary={"pipeline_parallel_degree": [1, 2], "activation_recomputation": ["none", "full"]})  # fmt: skip
    assert {row["tensor_parallel_degree"] for row in found.best} == {4.0}
    assert {row["pipeline_parallel_degree"] for row in found.best} <= {1.0, 2.0}
    assert {row["activation_recomputation"] for row in found.best} <= {"none", "full"}
    assert "zero_stage" not in found.swept


def test_the_space_of_degrees_names_what_it_does_not_search() -> None:
    held = explore(SMALL, layers=6, number_of_accelerators=16, top=EVERYTHING)
    told = "context and expert degrees, stages with unequal numbers of like layers, virtual stages, schedule, recomputation"
    assert told in held.held
    assert {row["pipeline_parallel_degree"] for row in held.best} == {
        1.0,
        2.0,
    }  # four stages have unequal numbers of six
    assert "layouts but the one that amped finds" in explore(SMALL, space="quick", top=1).held


@pytest.mark.thorough
@pytest.mark.parametrize("space", ["degrees", "default"])
def test_unequal_stages_of_mixtures_are_searched_where_those_of_dense_layers_are(space: str) -> None:
    found = [
        explore(SMALL, space=space, layers=6, number_of_experts=n, top=EVERYTHING, tensor_parallel_degree=1)
        for n in (1, 4)
    ]
    stages, mixtures = ({row["pipeline_parallel_degree"] for row in each.best} for each in found)
    assert stages == mixtures
    assert (4.0 in stages) == (space == "default")


def test_batch_sequence_and_precision_are_not_searched_unless_asked() -> None:
    assert {"context", "weight_precision", "matrix_precision"} & set(gpt3().swept) == set()
    assert {row["batch_size"] for row in gpt3().best} == {1536.0}


def test_rows_and_machines_are_an_outer_loop() -> None:
    listed = {"system": ["DGX A100", "DGX H100"], "number_of_accelerators": [8, 16]}
    found = explore(SMALL, vary=listed, top=EVERYTHING, memory_capacity="1 PB")
    alone = [explore(SMALL, system=s, number_of_accelerators=n, memory_capacity="1 PB", top=EVERYTHING)
             for s in listed["system"] for n in listed["number_of_accelerators"]]  # fmt: skip
    assert found.candidates == sum(each.candidates for each in alone)
    assert found.feasible == sum(each.feasible for each in alone)
    assert sorted(row["step_time"] for row in found.best) == sorted(row["step_time"] for e in alone for row in e.best)
    assert {(row["system"], row["number_of_accelerators"]) for row in found.best} == {
        ("DGX A100", 8.0), ("DGX A100", 16.0), ("DGX H100", 8.0), ("DGX H100", 16.0)}  # fmt: skip


def test_expert_degrees_are_searched_where_they_are_listed() -> None:
    found = explore("mixtral-8x7b", vary={"expert_parallel_degree": [1, 2, 4, 3]}, top=EVERYTHING)
    assert {row["expert_parallel_degree"] for row in found.best} == {1.0, 2.0, 4.0}  # three does not divide eight
    one = explore("mixtral-8x7b", expert_parallel_degree=4, top=1)
    assert min(r["step_time"] for r in found.best if r["expert_parallel_degree"] == 4) == one.best[0]["step_time"]


# --- each cell is an estimate ----------------------------------------------------------------------------------------


def settings(row: Row, names: tuple[str, ...]) -> dict[str, object]:
    return {name: row[name] for name in names}


def unequal(found: Exploration, rows: list[Row], config: object, **overrides: object) -> list[Row]:
    """The rows that differ, in any number they show, from the estimate of that one configuration."""
    wrong = []
    for row in rows:
        e = amped.estimate(config, **(overrides | settings(row, found.swept)))  # type: ignore[arg-type]
        numbers = {n: v for n, v in row.items() if not isinstance(v, str) and n in e}
        assert len(numbers) > 60
        wrong += [row for n, v in numbers.items() if e[n] != v][:1]
    return wrong


@pytest.mark.thorough
def test_a_hundred_cells_are_bit_for_bit_the_estimate_of_one() -> None:
    search = Search(searching("default", overrides=GPT3, top=3000))
    for part in random.Random(4).sample(search.parts, 5):  # rows good and bad: the best 3,000 of each part
        found = answer.answer(search, search.evaluate(part), 0.0)
        assert unequal(found, random.Random(4).sample(found.best, 20), default_config(), **GPT3) == []


@pytest.mark.thorough
def test_cells_of_the_full_space_are_bit_for_bit_the_estimate_of_one() -> None:
    search = Search(searching("default", space="full", overrides=GPT3, top=3000))
    for part in random.Random(5).sample(search.parts, 2):
        found = answer.answer(search, search.evaluate(part), 0.0)
        assert unequal(found, random.Random(6).sample(found.best, 40), default_config(), **GPT3) == []


@pytest.mark.thorough
def test_the_ranking_is_that_of_a_loop_over_estimates() -> None:
    rows, same = small().best[::54], {"memory_capacity": "1 PB"}
    times = [amped.estimate(read(), **same, **settings(row, small().swept))["training_time"] for row in rows]
    assert times == [row["training_time"] for row in rows] == sorted(times)


# --- parts and their findings ----------------------------------------------------------------------------------------


@cache
def findings() -> tuple[Finding, ...]:
    search = Search(searching(vary={"memory_bandwidth": (1e12, 2e12)}, pareto=("step_time", "memory"), top=4,
                              each=("memory_bandwidth",)))  # fmt: skip
    return tuple(search.evaluate(part) for part in search.parts)


def test_findings_merge_in_any_order_and_any_grouping() -> None:
    assert len(findings()) > 3
    draw, answers = random.Random(1), set()
    for _ in range(20):
        pool = draw.sample(findings(), len(findings()))
        while len(pool) > 1:
            place = draw.randrange(len(pool) - 1)
            pool[place : place + 2] = [merged(pool[place], pool[place + 1])]
        answers.add(json.dumps(pool[0].to_dict(), sort_keys=True))
    assert len(answers) == 1


def test_a_finding_goes_through_json_and_pickle_without_losing_a_bit() -> None:
    for found in findings():
        assert Finding.from_dict(json.loads(json.dumps(found.to_dict()))) == found
        assert pickle.loads(pickle.dumps(found)) == found
    assert merged(Finding(4), findings()[0]) == merged(findings()[0], Finding(4)) == findings()[0]


def test_a_part_of_a_pickled_request_is_the_same_part() -> None:
    request = searching("default", overrides=GPT3)
    search = Search(request)
    part = random.Random(2).choice(search.parts)
    asked = portable(request)
    assert evaluated(pickle.dumps(asked), fingerprint(asked), part)[0] == search.evaluate(part)


@pytest.mark.thorough
def test_each_group_has_its_own_best() -> None:
    listed = {"memory_bandwidth": [1e12, 2e12], "batch_size": [16, 32]}
    found = amped.explore(SMALL, vary=listed, each=["memory_bandwidth", "batch_size"], top=2)
    assert list(found.groups) == ["[1000000000000.0, 16.0]", "[1000000000000.0, 32.0]",
                                  "[2000000000000.0, 16.0]", "[2000000000000.0, 32.0]"]  # fmt: skip
    for group, rows in found.groups.items():
        bandwidth, batch = json.loads(group)
        alone = amped.explore(SMALL, memory_bandwidth=bandwidth, batch_size=batch, top=2)
        assert [row["step_time"] for row in rows] == [row["step_time"] for row in alone.best]
    assert ALL not in found.groups


# --- wishes, objectives, fronts --------------------------------------------------------------------------------------


@pytest.mark.thorough
@pytest.mark.parametrize(
    ("wish", "holds"),
    [
        ("memory_per_accelerator_bytes < 2 GB", lambda r: r["memory_per_accelerator_bytes"] < 2e9),
        ("tensor_parallel_degree <= 4 and step_time >= 0.5 s", lambda r: r["tensor_parallel_degree"] <= 4 and r["step_time"] >= 0.5),
        ("zero_stage = 1", lambda r: r["zero_stage"] == 1),
        ("activation_recomputation != full", lambda r: r["activation_recomputation"] != "full"),
        ("micro_batch_size > 1", lambda r: r["microbatch_size"] > 1),
        ("2 GB > memory_per_accelerator_bytes", lambda r: r["memory_per_accelerator_bytes"] < 2e9),
        ("full != activation_recomputation", lambda r: r["activation_recomputation"] != "full"),
        ("tensor_parallel_degree >= pipeline_parallel_degree", lambda r: r["tensor_parallel_degree"] >= r["pipeline_parallel_degree"]),
    ],
)  # fmt: skip
def test_a_wish_keeps_what_fulfills_it(wish: str, holds) -> None:  # type: ignore[no-untyped-def]
    found = amped.explore(SMALL, memory_capacity="1 PB", where=wish, top=EVERYTHING)
    wanted = [row for row in small().best if holds(row)]
    assert 0 < len(wanted) < len(small().best)
    assert found.best == [row | settings(row, ()) for row in wanted]
    assert found.candidates == small().candidates
    assert sum(found.removed.values()) >= found.candidates - found.feasible


@pytest.mark.parametrize(
    ("wish", "told"),
    [
        ("memory_per_acelerator_bytes < 70 GB", "did you mean 'memory_per_accelerator_bytes'"),
        ("memory_per_accelerator_bytes < 70 parsecs", "parsecs"),
        ("__import__('os').system('true')", "is not NAME < VALUE"),
        ("step_time < 20 s and step_time > 30 s", "contradict"),
        ("zero_stage = 1 and zero_stage != 1", "contradict"),
        ("activation_recomputation < full", "compare it by"),
        ("step_time", "is not NAME < VALUE"),
        ("1 < step_time < 2", "is not NAME < VALUE"),
        ("1 < 2", "there is no quantity '1'"),
        ("tensor_parallel_degree < step_time", "numbers of one unit"),
        ("step_time < trainig_time", "did you mean 'training_time'"),
    ],
)
def test_a_wrong_wish_is_refused_with_what_to_do(wish: str, told: str) -> None:
    with pytest.raises(ConfigError, match=told.replace("(", r"\(")):
        amped.explore(SMALL, where=wish)


@pytest.mark.thorough
@pytest.mark.parametrize(
    ("objective", "name", "sign"),
    [
        ("step_time", "step_time", 1), ("memory", "memory_per_accelerator_bytes", 1), ("energy", "energy", 1),
        ("tokens_per_second_per_accelerator", "tokens_per_second_per_accelerator", -1),
        ("model_flops_utilization", "model_flops_utilization", -1), ("activation_bytes", "activation_bytes", 1),
    ],
)  # fmt: skip
def test_any_quantity_can_be_the_objective(objective: str, name: str, sign: int) -> None:
    found = amped.explore(SMALL, memory_capacity="1 PB", objective=objective, top=5)
    assert [row[name] for row in found.best] == sorted((row[name] for row in small().best), key=lambda v: sign * v)[:5]
    worst = amped.explore(SMALL, memory_capacity="1 PB", objective=objective, largest=sign > 0, top=1)
    assert worst.best[0][name] == max((row[name] for row in small().best), key=lambda v: sign * v)


def test_an_objective_that_is_no_quantity_is_refused() -> None:
    with pytest.raises(ConfigError, match="did you mean 'step_time'"):
        amped.explore(SMALL, objective="step_tme")


def test_the_front_is_that_of_comparing_all_with_all() -> None:
    pairs = {(row["step_time"], row["memory_per_accelerator_bytes"]) for row in small().best}
    front = {p for p in pairs if not any(q != p and q[0] <= p[0] and q[1] <= p[1] for q in pairs)}
    found = amped.explore(SMALL, memory_capacity="1 PB", pareto=("step_time", "memory"))
    told = [(row["step_time"], row["memory_per_accelerator_bytes"]) for row in found.front]
    assert told == sorted(front)
    assert len(told) > 2
    assert front_of() == ()


# --- why not ---------------------------------------------------------------------------------------------------------


def test_the_nearest_that_would_win_lacks_least_memory() -> None:
    found = amped.explore(SMALL)
    slowest = found.best[0]["training_time"]
    lacking = [row for row in small().best if row["training_time"] < slowest]
    assert found.nearest is not None
    nearest = min(row["memory_per_accelerator_bytes"] for row in lacking)
    assert found.nearest["memory_per_accelerator_bytes"] == nearest
    assert "more memory for each accelerator, or " in found.needs


@pytest.mark.thorough
def test_a_choice_that_no_candidate_has_is_told() -> None:
    found = explore(SMALL, where=("tensor_parallel_strategy != 1d",))
    assert found.feasible == 0
    assert "its tensor_parallel_strategy is 1d, and tensor_parallel_strategy != 1d was asked for" in found.needs


def test_a_space_of_very_many_candidates_is_told_before_it_is_searched(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(asked_space, "MOST", 100)
    with pytest.raises(AmpedError, match=r"(?s)candidates, which take about .* hours.*yes=True"):
        explore(SMALL)
    assert answer.explored(read_scenario(SMALL), Options(1, "degrees", yes=True)).candidates > 100


def test_every_number_told_is_finite() -> None:
    assert all(math.isfinite(v) for row in small().best for v in row.values() if isinstance(v, float))


@pytest.mark.thorough
def test_where_nothing_fits_offload_and_recomputation_of_modules_are_searched_too() -> None:
    short = {"memory_capacity": "1.5 GB"}
    plain = answer.answer(search := Search(searching(overrides=short)), found_in(search), 0.0)
    found = amped.explore(SMALL, **short)
    assert (plain.feasible, found.feasible > 0) == (0, True)
    assert found.best == amped.explore(SMALL, space="memory", **short).best
    assert any(found.best[0][name] > 0 for name in ("optimizer_offload", "activation_offload", "norm_recomputation"))
    row = found.best[0]
    again = amped.estimate(SMALL, **short, **settings(row, found.swept))
    assert (again["step_time"], again["fits_in_memory"]) == (row["step_time"], True)


@pytest.mark.thorough
@pytest.mark.parametrize("space", ["quick", "degrees", "default"])
def test_the_columns_of_a_grid_are_searched_in_every_space(space: str) -> None:
    line, grid = (
        answer.explored(
            read_scenario(SMALL, {"tensor_parallel_strategy": strategy}), Options(ALL_OF_THEM, space, yes=True)
        )
        for strategy in ("1d", "2d_context")
    )
    assert grid.candidates > line.candidates
    assert max(row["tensor_parallel_columns"] for row in grid.best) > 1
    assert all(row.get("tensor_parallel_columns", 1) == 1 for row in line.best)
    assert "tensor-parallel strategy and panels of SUMMA" in grid.held
