"""Exploring: the winner is what trying everything one by one finds, and every row is an estimate of its own."""

import csv
import json
import math
import subprocess
import sys
from collections.abc import Iterator
from functools import cache
from itertools import product
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest

import amped
from amped.config import Config
from amped.errors import AmpedError, ConfigError, EvaluationError, MappingError
from amped.exploration.search import Exploration
from amped.exploration.space import JOINT, PARTS
from amped.exploration.sweeps import parse_vary

# 16 accelerators, two nodes of 8: every mapping can be tried by hand.
SMALL = {
    "neural_network_training_parameters": {"parameters": {
        "layers": {"value": 8}, "dimensionality": {"value": 2048}, "attention_heads": {"value": 16},
        "vocabulary_size": {"value": 32000}, "context": {"value": 1024}, "batch_size": {"value": 32},
        "tokens_to_train": {"value": "1 G"},
    }},
    "mapping_parameters": {"parameters": {"zero_stage": {"value": 1}}},
    "system_architecture_parameters": {
        "lookup_config": {"lookup_table_row": "DGX A100"},
        "parameters": {"number_of_accelerators": {"value": 16}},
    },
    "accelerator_architecture_parameters": {
        "lookup_config": {"lookup_table_row": "A100 SXM 80GB"},
        "parameters": {"memory_capacity": {"value": "2.2 GB"}},
    },
}  # fmt: skip
EVERYTHING = 100_000
SAME = ("training_time", "step_time", "memory_per_accelerator_bytes")
Row = dict[str, float | bool]


def divisors(number: int) -> list[int]:
    return [d for d in range(1, number + 1) if number % d == 0]


def six_degrees(accelerators: int, domain: int, filled: bool) -> Iterator[dict[str, float]]:
    """All ways to write the machine as a product of six, `domain` or less of it inside the node."""
    for parts in product(divisors(accelerators), repeat=6):
        inside = parts[0] * parts[2] * parts[4]
        if math.prod(parts) == accelerators and (inside == domain if filled else inside <= domain):
            yield dict(zip(PARTS, map(float, parts), strict=True))


def one_by_one(batch: int, filled: bool = True, **values: object) -> tuple[int, list[amped.Estimate]]:
    """How many candidates there are, and the estimates of those that keep every rule: no broadcasting, a plain loop."""
    tried, kept = 0, []
    for degrees in six_degrees(16, 8, filled):
        replicas = int(degrees["intra_node_data_parallel_degree"] * degrees["inter_node_data_parallel_degree"])
        for size in divisors(batch // replicas) if batch % replicas == 0 else ():
            tried += 1
            try:
                kept.append(amped.estimate(read(), **degrees, **values, microbatch_size=size, batch_size=batch))
            except MappingError:
                continue
    return tried, kept


@cache
def read() -> Config:
    return amped.load_config(SMALL)


@cache
def tried() -> tuple[int, list[amped.Estimate]]:
    return one_by_one(32)


@cache
def explored() -> Exploration:
    return amped.explore(SMALL, top=EVERYTHING)


def estimate_of(row: Row, *swept: str) -> amped.Estimate:
    return amped.estimate(read(), **{name: row[name] for name in (*JOINT, *swept)})


def unequal_rows(rows: list[Row], *swept: str) -> list[Row]:
    """The rows that differ, in any result they show, from an estimate of that one configuration."""
    results = set(rows[0]) - set(JOINT) - set(swept)
    return [row for row in rows if any(estimate_of(row, *swept)[name] != row[name] for name in results)]


# --- the same as trying everything ----------------------------------------------------------------------------------


def test_the_counts_are_those_of_trying_everything() -> None:
    candidates, kept = tried()
    fitting = [e for e in kept if e["fits_in_memory"]]
    found = explored()
    assert (found.candidates, found.keeping_rules, found.feasible) == (candidates, len(kept), len(fitting))
    assert 0 < found.feasible < found.keeping_rules < found.candidates
    assert found.removed["fits_in_memory"] == len(kept) - len(fitting)
    assert len(found.best) == found.feasible


def test_the_ranking_is_that_of_trying_everything() -> None:
    _, kept = tried()
    keys = sorted(tuple(e[name] for name in SAME) for e in kept if e["fits_in_memory"])
    assert sorted(tuple(row[name] for name in SAME) for row in explored().best) == keys
    times = [row["training_time"] for row in explored().best]
    assert times == sorted(times)
    assert times[0] == keys[0][0]


def test_no_mapping_that_leaves_the_node_half_empty_would_win() -> None:
    _, kept = one_by_one(32, filled=False)
    assert len(kept) > len(tried()[1])
    assert min(e["training_time"] for e in kept if e["fits_in_memory"]) == explored().best[0]["training_time"]


def test_every_row_is_bit_for_bit_the_estimate_of_its_mapping() -> None:
    assert unequal_rows(explored().best) == []


def test_the_rows_of_a_shipped_config_are_bit_for_bit_estimates() -> None:
    found = amped.explore("default", top=30, number_of_accelerators=256)
    for row in found.best:
        single = amped.estimate("default", number_of_accelerators=256, **{name: row[name] for name in JOINT})
        assert {name: single[name] for name in SAME} == {name: row[name] for name in SAME}


def test_a_shorter_list_is_the_head_of_a_longer_one() -> None:
    for top in (1, 3, 10):
        assert amped.explore(SMALL, top=top).best == explored().best[:top]


def test_ties_go_to_the_smaller_memory_and_then_always_the_same_way() -> None:
    assert amped.explore(SMALL, top=EVERYTHING).best == explored().best
    keys = [(row["training_time"], row["memory_per_accelerator_bytes"]) for row in explored().best]
    assert keys == sorted(keys)


def test_where_nothing_fits_the_best_that_do_not_are_told() -> None:
    found = amped.explore(SMALL, memory_capacity="0.5 GB", top=5)
    assert (found.feasible, len(found.best)) == (0, 5)
    assert [row["fits_in_memory"] for row in found.best] == [False] * 5
    assert found.removed["fits_in_memory"] == found.keeping_rules


def test_the_rules_that_remove_candidates_are_counted() -> None:
    found = amped.explore(SMALL, virtual_pipeline_stages=2, top=1)
    assert found.removed["interleaving_needs_rounds_of_microbatches"] > 0
    assert found.candidates == explored().candidates
    assert found.best[0]["pipeline_parallel_degree"] > 1


def test_the_context_degree_of_the_config_is_kept() -> None:
    found = amped.explore(SMALL, context_parallel_degree=2, top=EVERYTHING)
    degrees = {tuple(row[name] for name in PARTS) for row in found.best}
    assert {math.prod(parts) for parts in degrees} == {8.0}
    row = found.best[0]
    single = amped.estimate(SMALL, context_parallel_degree=2, **{name: row[name] for name in JOINT})
    assert {name: single[name] for name in SAME} == {name: row[name] for name in SAME}


# --- sweeps ---------------------------------------------------------------------------------------------------------


def test_a_sweep_of_the_batch_explores_each_size() -> None:
    found = amped.explore(SMALL, vary={"batch_size": [16, 48]}, top=EVERYTHING)
    alone = [amped.explore(SMALL, batch_size=size, top=EVERYTHING) for size in (16, 48)]
    assert found.candidates == sum(each.candidates for each in alone)
    assert {row["batch_size"] for row in found.best} == {16.0, 48.0}
    assert found.best[0]["training_time"] == min(each.best[0]["training_time"] for each in alone)
    assert unequal_rows(found.best[::3]) == []


def test_a_sweep_of_an_open_axis_multiplies_the_candidates() -> None:
    found = amped.explore(SMALL, vary={"memory_bandwidth": [1e12, 2e12]}, top=EVERYTHING)
    assert found.candidates == 2 * explored().candidates
    assert {row["memory_bandwidth"] for row in found.best} == {1e12, 2e12}
    assert unequal_rows(found.best[::3], "memory_bandwidth") == []


def test_two_open_axes_and_the_batch_are_swept_together() -> None:
    swept = {"memory_bandwidth": [1e12, 2e12], "context": [512, 1024, 2048], "batch_size": [16, 32]}
    found = amped.explore(SMALL, vary=swept, top=EVERYTHING)
    per_batch = [amped.explore(SMALL, batch_size=size).candidates for size in (16, 32)]
    assert found.candidates == 6 * sum(per_batch)
    assert unequal_rows(found.best[:: len(found.best) // 50], "memory_bandwidth", "context") == []


def test_a_list_in_the_config_is_a_sweep() -> None:
    listed = json.loads(json.dumps(SMALL))
    listed["neural_network_training_parameters"]["parameters"]["batch_size"] = {"value": [16, 48]}
    listed["accelerator_architecture_parameters"]["parameters"]["memory_bandwidth"] = {"value": ["1 TB/s", "2 TB/s"]}
    found = amped.explore(listed, top=EVERYTHING)
    swept = {"batch_size": [16, 48], "memory_bandwidth": ["1 TB/s", "2 TB/s"]}
    assert found.best == amped.explore(SMALL, vary=swept, top=EVERYTHING).best


@pytest.mark.parametrize(
    ("name", "values"),
    [
        ("frequency", [0.7e9, 1.41e9]), ("samples", [1000, 2000]), ("number_of_steps", [100, 200]),
        ("number_of_network_cards_per_node", [1, 8]), ("mac_per_cycle_per_unit", [128, 256]),
    ],
)  # fmt: skip
def test_a_swept_value_takes_the_place_of_what_it_determines(name: str, values: list[float]) -> None:
    found = amped.explore(SMALL, vary={name: values}, top=EVERYTHING)
    for value in values:
        best = next(row for row in found.best if row[name] == value)
        alone = amped.explore(SMALL, **{name: value}, top=1).best[0]
        assert {key: best[key] for key in SAME} == {key: alone[key] for key in SAME}


def test_a_swept_name_may_be_one_of_the_other_spellings() -> None:
    assert amped.explore(SMALL, vary={"global_batch_size": [16]}).best == amped.explore(SMALL, batch_size=16).best


# --- what cannot be explored ----------------------------------------------------------------------------------------


def test_where_no_mapping_divides_there_is_an_error() -> None:
    with pytest.raises(AmpedError, match=r"(?i)no mapping|divide"):
        amped.explore(SMALL, number_of_accelerators=16, context_parallel_degree=3)


@pytest.mark.parametrize("degree", ["tensor_parallel_degree", "inter_node_data_parallel_degree", "microbatch_size"])
def test_a_list_for_what_is_always_searched_is_refused(degree: str) -> None:
    with pytest.raises(ConfigError, match=f"'{degree}' is always searched"):
        amped.explore(SMALL, vary={degree: [1, 2]})


@pytest.mark.parametrize("name", [
    "context_parallel_degree", "number_of_accelerators", "number_of_nodes", "scale_up_domain_size",
])  # fmt: skip
def test_a_list_for_what_makes_the_space_is_refused(name: str) -> None:
    with pytest.raises(ConfigError, match=name):
        amped.explore(SMALL, vary={name: [1, 2]})


def test_a_sweep_of_a_choice_is_refused_with_what_to_do() -> None:
    with pytest.raises(ConfigError, match=r"(?s)choice 'activation_recomputation' needs one run.*--set"):
        amped.explore(SMALL, vary={"activation_recomputation": ["none", "full"]})


def test_a_sweep_of_an_unknown_name_is_refused_with_the_nearest() -> None:
    with pytest.raises(ConfigError, match=r"(?s)unknown parameter 'memory_bandwith'.*did you mean 'memory_bandwidth'"):
        amped.explore(SMALL, vary={"memory_bandwith": [1]})


@pytest.mark.parametrize("name", ["layer_gemms", "the_batch_divides_by_the_data_degree"])
def test_a_sweep_of_what_cannot_be_given_is_refused(name: str) -> None:
    with pytest.raises(ConfigError, match=name):
        amped.explore(SMALL, vary={name: [1]})


@pytest.mark.parametrize("values", [[], [1e12, 1e12], ["8 parsecs"], [-1.0]])
def test_a_sweep_of_wrong_values_is_refused(values: list[object]) -> None:
    with pytest.raises(ConfigError, match="memory_bandwidth"):
        amped.explore(SMALL, vary={"memory_bandwidth": values})


def test_all_that_is_wrong_with_a_sweep_is_told_at_once() -> None:
    wrong = {"tensor_parallel_degree": [1], "optimizer": ["adam"], "memory_bandwith": [1]}
    with pytest.raises(ConfigError) as refusal:
        amped.explore(SMALL, vary=wrong)
    assert len(refusal.value.problems) == 3


def test_a_result_that_is_no_number_is_an_error() -> None:
    with pytest.raises(EvaluationError, match="came out as inf"):
        amped.explore(SMALL, memory_bandwidth=1e-300)


def test_a_formula_may_leave_its_argument_unused() -> None:
    mine = ModuleType("constant_time")
    marked = 'from amped.quantity import quantity\n@quantity("s")\n'
    exec(f'{marked}def optimizer_time__amped(weight_bytes):\n    "Source: me."\n    return 3.0\n', mine.__dict__)
    assert amped.explore(SMALL, formulas=mine).best[0]["optimizer_time"] == 3.0


def test_nothing_asked_for_is_refused() -> None:
    with pytest.raises(ConfigError, match="top"):
        amped.explore(SMALL, top=0)


# --- --vary ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "values"),
    [
        ("1,2,5", [1.0, 2.0, 5.0]),
        ("7", [7.0]),
        ("2:10:4", [2.0, 6.0, 10.0]),
        ("2:11:4", [2.0, 6.0, 10.0]),
        ("512:4096:x2", [512.0, 1024.0, 2048.0, 4096.0]),
        ("0.1:0.3:0.1", [0.1, 0.2, pytest.approx(0.3)]),
        ("1:2:1:TB/s", ["1.0 TB/s", "2.0 TB/s"]),
        ("1,2:TB/s", ["1 TB/s", "2 TB/s"]),
        ("1 TB/s, 2 TB/s", ["1 TB/s", "2 TB/s"]),
    ],
)
def test_the_values_of_a_sweep_are_read(text: str, values: list[object]) -> None:
    assert parse_vary([f"name={text}"]) == {"name": values}


@pytest.mark.parametrize(
    "text",
    ["name", "=1,2", "name=", "a=2:1:1", "a=1:2:0", "a=1:2:-1", "a=1:2:x1", "a=1:2:x0.5", "a=0:2:x2", "a=1:inf:1",
     "a=nan:2:1", "a=1:2:nan", "a=one:2:1", "a=1:1e9:1"],
)  # fmt: skip
def test_a_sweep_that_leads_nowhere_is_refused(text: str) -> None:
    with pytest.raises(ConfigError, match="--vary"):
        parse_vary([text])


def test_a_name_swept_twice_is_refused() -> None:
    with pytest.raises(ConfigError, match="twice"):
        parse_vary(["a=1", "a=2"])


# --- the command ----------------------------------------------------------------------------------------------------


@pytest.fixture
def small(tmp_path: Path) -> Path:
    path = tmp_path / "small.json"
    path.write_text(json.dumps(SMALL), "utf-8")
    return path


def command(*arguments: object, code: int = 0) -> subprocess.CompletedProcess[str]:
    line = [sys.executable, "-m", "amped", "explore", *map(str, arguments)]
    done = subprocess.run(line, capture_output=True, text=True, check=False, encoding="utf-8")
    assert done.returncode == code, done.stderr
    assert "Traceback" not in done.stderr
    return done


def test_redirected_json_is_json_and_nothing_else(small: Path) -> None:
    done = command("--config", small, "--format", "json", "--top", 4)
    told = json.loads(done.stdout)
    assert told["best"] == explored().best[:4]
    assert (told["candidates"], told["feasible"]) == (explored().candidates, explored().feasible)


def test_redirected_csv_is_csv_and_nothing_else(small: Path) -> None:
    rows = list(csv.DictReader(command("--config", small, "--format", "csv", "--top", 4).stdout.splitlines()))
    assert [float(row["training_time"]) for row in rows] == [row["training_time"] for row in explored().best[:4]]
    assert set(rows[0]) == set(explored().best[0])


def test_a_redirected_table_is_plain(small: Path) -> None:
    done = command("--config", small, "--top", 4, "--vary", "memory_bandwidth=1e12,2e12")
    assert "\x1b" not in done.stdout + done.stderr
    assert f"{2 * explored().candidates:,} candidates" in done.stdout
    assert len([line for line in done.stdout.splitlines() if line.strip()[:2].strip().isdigit()]) >= 4


def test_the_number_of_accelerators_is_an_option(small: Path) -> None:
    told = json.loads(command("--config", small, "--gpus", 8, "--format", "json", "--top", 1).stdout)
    assert math.prod(told["best"][0][name] for name in PARTS) == 8


def test_a_switch_is_swept_as_it_is_set(small: Path) -> None:
    told = json.loads(command("--config", small, "--vary", "sequence_parallel=true,false", "--format", "json").stdout)
    assert told["candidates"] == 2 * explored().candidates


def test_an_output_file_is_written_once(small: Path, tmp_path: Path) -> None:
    output = tmp_path / "ranking.csv"
    assert command("--config", small, "--format", "csv", "--output", output).stdout == ""
    written = output.read_text("utf-8")
    assert written.startswith(",".join(JOINT))
    refused = command("--config", small, "--format", "json", "--output", output, code=2)
    assert "not overwritten" in refused.stderr
    assert output.read_text("utf-8") == written


@pytest.mark.parametrize("form", ["table", "csv", "json"])
def test_where_every_candidate_breaks_a_rule_the_command_says_so(form: str) -> None:
    # Eight experts never divide by an expert degree of three.
    done = command("--config", "mixtral-8x7b", "--set", "expert_parallel_degree=3", "--format", form, code=0)
    if form == "json":
        assert json.loads(done.stdout)["best"] == []
    assert "\x1b" not in done.stdout


@pytest.mark.parametrize("wrong", ["a=1", "batch_size=1:2:0", "tensor_parallel_degree=1,2", "batch_size"])
def test_a_wrong_sweep_is_the_users_mistake(small: Path, wrong: str) -> None:
    assert command("--config", small, "--vary", wrong, code=2).stderr.startswith("amped: ")


def test_the_space_of_a_million_candidates_stays_small() -> None:
    peak = """
import resource, amped
found = amped.explore("default", vary={"memory_bandwidth": [1e12, 2e12], "batch_size": list(range(512, 16384, 64))})
print(found.candidates, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024)
"""
    done = subprocess.run([sys.executable, "-c", peak], capture_output=True, text=True, check=True)
    candidates, used = map(int, done.stdout.split())
    assert candidates > 1e6
    assert used < 2**30


def test_the_joint_columns_are_floats_that_hold_whole_numbers() -> None:
    values = np.array([[row[name] for name in JOINT] for row in explored().best], dtype=np.float64)
    np.testing.assert_array_equal(values, np.round(values))
