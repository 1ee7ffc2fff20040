"""Exploring: the winner is what trying everything one by one finds, and every row is an estimate of its own."""

import math
import subprocess
import sys

import numpy as np
import pytest

import amped
from amped.exploration.search_space import PARTS, SPACES
from amped.theory.nouns.parallelisms import PLACED
from tests.helpers.explore import (
    EVERYTHING,
    JOINT,
    SAME,
    SMALL,
    Row,
    explore,
    explored,
    one_by_one,
    tried,
    unequal_rows,
)
from tests.helpers.formulas import page


@pytest.mark.thorough
def test_the_counts_are_those_of_trying_everything() -> None:
    _, kept = tried()
    fitting = [e for e in kept if e["fits_in_memory"]]
    found = explored()
    assert (found.candidates, found.feasible) == (len(kept), len(fitting))
    assert 0 < found.feasible < found.candidates
    assert found.removed["fits_in_memory"] == len(kept) - len(fitting)
    assert len(found.best) == found.feasible


@pytest.mark.thorough
def test_the_ranking_is_that_of_trying_everything() -> None:
    _, kept = tried()
    keys = sorted(tuple(e[name] for name in SAME) for e in kept if e["fits_in_memory"])
    assert sorted(tuple(row[name] for name in SAME) for row in explored().best) == keys
    times = [row["training_time"] for row in explored().best]
    assert times == sorted(times)
    assert times[0] == keys[0][0]


@pytest.mark.thorough
def test_no_mapping_that_leaves_more_places_empty_would_win_where_the_domain_does_not_divide_the_machine() -> None:
    """Twelve accelerators and domains of eight: four or six of them lie together, of which neither divides the other."""
    roomy = {"number_of_accelerators": 12, "memory_capacity": "80 GB"}
    filled = explore(SMALL, batch_size=12, top=1, **roomy)
    _, kept = one_by_one(12, filled=False, accelerators=12, **roomy)
    assert min(e["training_time"] for e in kept if e["fits_in_memory"]) == filled.best[0]["training_time"]


@pytest.mark.thorough
def test_where_formulas_place_the_degrees_the_best_filling_is_that_of_the_estimate() -> None:
    found = amped.explore(SMALL, number_of_accelerators=12, batch_size=36, top=50, attention_heads=24)
    degrees = (*(f"{kind}_parallel_degree" for kind in PLACED), "microbatch_size")
    policies = (*SPACES["default"].policies, "virtual_pipeline_stages")
    assert any(row["filled_domain_size"] < 8 for row in found.best)
    for row in found.best[:5]:
        own = {name: row[name] for name in (*degrees, *policies)} | {"batch_size": 36, "number_of_accelerators": 12}
        assert amped.estimate(SMALL, **own, attention_heads=24)["step_time"] <= row["step_time"]
        held = amped.estimate(SMALL, **own, attention_heads=24, filled_domain_size=row["filled_domain_size"])
        assert held["step_time"] == row["step_time"]


def test_every_row_is_bit_for_bit_the_estimate_of_its_mapping() -> None:
    assert unequal_rows(explored().best) == []


def test_the_rows_of_a_shipped_config_are_bit_for_bit_estimates() -> None:
    found = explore("default", top=30, number_of_accelerators=256)
    for row in found.best:
        single = amped.estimate("default", number_of_accelerators=256, **{name: row[name] for name in JOINT})
        assert {name: single[name] for name in SAME} == {name: row[name] for name in SAME}


def test_a_shorter_list_is_the_head_of_a_longer_one() -> None:
    for top in (1, 3, 10):
        assert explore(SMALL, top=top).best == explored().best[:top]


def test_ties_go_to_the_smaller_memory_and_then_always_the_same_way() -> None:
    assert explore(SMALL, top=EVERYTHING).best == explored().best
    keys = [(row["training_time"], row["memory_per_accelerator_bytes"]) for row in explored().best]
    assert keys == sorted(keys)


def test_where_nothing_fits_those_that_lack_least_memory_are_told() -> None:
    found = explore(SMALL, memory_capacity="0.5 GB", top=5)
    assert (found.feasible, len(found.best)) == (0, 5)
    every = explore(SMALL, memory_capacity="1 PB", objective="memory", top=5)
    least = [row["memory_per_accelerator_bytes"] for row in every.best]
    assert [row["memory_per_accelerator_bytes"] for row in found.best] == least
    assert [row["missing_memory_bytes"] - found.best[0]["missing_memory_bytes"] for row in found.best] == [
        memory - least[0] for memory in least
    ]
    assert found.nearest is not None
    assert found.nearest["memory_per_accelerator_bytes"] == least[0]
    assert [row["fits_in_memory"] for row in found.best] == [False] * 5
    assert found.removed == {"fits_in_memory": found.candidates}
    assert found.nearest is not None
    assert "GB more memory" in found.needs


def test_what_is_missing_is_missing_to_the_memory_that_was_wished_for() -> None:
    wish, row = 0.3e9, explored().best[0]
    found = explore(SMALL, where="memory_per_accelerator_bytes < 0.3 GB", top=1)
    assert found.best[0]["missing_memory_bytes"] == found.best[0]["memory_per_accelerator_bytes"] - wish
    assert found.best[0]["memory_per_accelerator_bytes"] < row["memory_per_accelerator_bytes"]


def mechanisms(row: Row) -> int:
    """Counted on paper: degrees above one but that of data, chunks, recomputation, ZeRO, sequence parallelism."""
    above = ("tensor_parallel_degree", "pipeline_parallel_degree", "context_parallel_degree", "virtual_pipeline_stages")
    switches = row["zero_stage"] > 0, row["sequence_parallel"] > 0, row["activation_recomputation"] != "none"
    return sum(row[name] > 1 for name in above) + sum(switches)


def test_of_candidates_as_fast_as_the_best_the_simplest_come_first() -> None:
    found = amped.explore(SMALL, memory_capacity="1 PB", top=EVERYTHING)
    best = found.best[0]["training_time"]
    near = [(mechanisms(row), row["training_time"]) for row in found.best if row["training_time"] <= 1.5 * best]
    front = [one for one in near if not any(o != one and o[0] <= one[0] and o[1] <= one[1] for o in near)]
    told = [(row["number_of_mechanisms"], row["training_time"]) for row in found.simple]
    assert told == sorted(set(front))
    assert 0 < found.error_fraction < 0.5
    ties = [(row["number_of_mechanisms"], row["training_time"]) for row in found.ties]
    assert ties == [each for each in told[:-1] if each[1] <= best * (1 + found.error_fraction)]


def test_what_is_not_searched_is_told() -> None:
    found = explore(SMALL, space="default", tensor_parallel_degree=2, expert_parallel_degree=1, top=1)
    assert "schedule" in found.held
    assert found.held.endswith("set: tensor_parallel_degree, expert_parallel_degree")


def test_the_rules_that_remove_candidates_are_counted() -> None:
    found = explore(SMALL, zero_stage=3, top=1)
    assert 0 < found.removed["sharded_weights_are_not_pipelined"] < found.candidates == explored().candidates
    assert found.best[0]["pipeline_parallel_degree"] == 1


def test_what_does_not_divide_is_no_candidate() -> None:
    found = explore(SMALL, virtual_pipeline_stages=2, top=1)
    assert 0 < found.candidates < explored().candidates
    assert found.best[0]["pipeline_parallel_degree"] > 1


def test_the_context_degree_of_the_config_is_kept() -> None:
    found = explore(SMALL, context_parallel_degree=2, top=EVERYTHING)
    degrees = {tuple(row[name] for name in PARTS) for row in found.best}
    assert {math.prod(parts) for parts in degrees} == {8.0}
    row = found.best[0]
    single = amped.estimate(SMALL, context_parallel_degree=2, **{name: row[name] for name in JOINT})
    assert {name: single[name] for name in SAME} == {name: row[name] for name in SAME}


def test_a_formula_may_leave_its_argument_unused() -> None:
    mine = page('@quantity("s")\ndef optimizer_time__operators(weight_bytes):\n    "Source: me."\n    return 3.0')
    assert explore(SMALL, formulas=mine).best[0]["optimizer_time"] == 3.0


def test_the_joint_columns_are_floats_that_hold_whole_numbers() -> None:
    values = np.array([[row[name] for name in JOINT] for row in explored().best], dtype=np.float64)
    np.testing.assert_array_equal(values, np.round(values))


@pytest.mark.thorough
def test_the_space_of_a_million_candidates_stays_small() -> None:
    peak = """
import amped
vary = {"memory_bandwidth": [1e12, 2e12], "batch_size": list(range(512, 16384, 64))}
found = amped.explore("default", vary=vary, space="degrees")
peak = next(line.split()[1] for line in open("/proc/self/status") if line.startswith("VmHWM"))
print(found.candidates, int(peak) * 1024)
"""
    done = subprocess.run([sys.executable, "-c", peak], capture_output=True, text=True, check=True)
    candidates, used = map(int, done.stdout.split())
    assert candidates > 1e6
    assert used < 2**30
