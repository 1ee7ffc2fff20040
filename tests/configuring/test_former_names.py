"""Names that amped had before: still read at every door, told once, printed where they are asked for; and nothing is lost."""

import csv
import json
from pathlib import Path

import pytest
import typer
from typer.testing import CliRunner

import amped
from amped.base.aliases import aliases
from amped.cli.app import app
from amped.configuring.config import shipped_configs
from amped.configuring.scenario import read_scenario
from amped.theory.language.catalogue import catalogue
from amped.theory.language.quantity import ACCELERATOR, NETWORK, SYSTEM
from tests.helpers.cli import printed
from tests.helpers.formulas import sectioned
from tests.helpers.places import DATA

BEFORE = json.loads((DATA / "offered_before.json").read_text("utf-8"))
FORMER = aliases().former
# The default's network and machine, and a launch time by its former name.
LAUNCHING = sectioned(
    {"batch_size": 1536, "tensor_parallel_degree": 8, "pipeline_parallel_degree": 8, "number_of_nodes": 16},
    {NETWORK: "GPT-3 175B", SYSTEM: "DGX A100"},
)
LAUNCHING[ACCELERATOR]["parameters"]["kernel_dispatch_time"] = {"value": "3 us"}


def now(names: list[str]) -> set[str]:
    return {(FORMER | aliases().records).get(name, name) for name in names}


def options_of(command: object, path: tuple[str, ...] = ()) -> dict[str, set[str]]:
    """The options of every verb, by its words."""
    found: dict[str, set[str]] = {}
    for name, inner in command.commands.items():  # type: ignore[attr-defined]
        if hasattr(inner, "commands"):
            found |= options_of(inner, (*path, name))
        else:
            found[" ".join((*path, name))] = {o for p in inner.params for o in (*p.opts, *p.secondary_opts)}
    return found


class TestTheTable:
    def test_a_former_name_is_none_now_and_stands_for_one_that_is(self) -> None:
        assert not set(FORMER) & set(catalogue())
        assert set(FORMER.values()) <= set(catalogue())
        assert len(set(FORMER.values())) == len(FORMER)
        assert not set(aliases().records) & ({*FORMER} | set(catalogue()))
        assert set(aliases().records.values()) <= set(catalogue())

    def test_no_former_name_means_something_else_at_the_door(self) -> None:
        known = aliases()
        assert not set(FORMER) & {*known.common, *known.renamed, *known.equal_to, *known.retired}


# Options that went with what they chose: layouts are selected exactly, and in no other way (CHANGELOG).
GONE = {"layouts select": {"--strategy", "--split-vars"}}


class TestNothingIsLost:
    @pytest.mark.parametrize("verb", BEFORE["verbs"])
    def test_every_verb_has_the_options_that_it_had(self, verb: str) -> None:
        assert set(BEFORE["verbs"][verb]) - GONE.get(verb, set()) <= options_of(typer.main.get_command(app))[verb]

    def test_every_parameter_and_quantity_is_there_under_its_name_of_today(self) -> None:
        gone = aliases().retired
        assert now(BEFORE["quantities"]) <= set(catalogue()) | gone
        assert now(BEFORE["parameters"]) <= {name for name, q in catalogue().items() if q.category} | gone

    def test_every_result_is_printed(self) -> None:
        results = [amped.estimate(config).to_dict() for config in ("default", "mixtral-8x7b")]
        assert now(BEFORE["results"]) <= {name for found in results for name in found}

    def test_every_choice_config_and_function_of_the_door_is_there(self) -> None:
        for name, choices in BEFORE["choices"].items():
            assert set(choices) <= set(catalogue()[FORMER.get(name, name)].mark.choices)
        assert set(BEFORE["configs"]) <= set(shipped_configs())
        assert set(BEFORE["door"]) <= set(amped.__all__)


class TestTheDoorsReadThem:
    def test_a_config_and_a_call_say_so_once(self) -> None:
        told = "'kernel_dispatch_time' is called kernel_launch_time now"
        for named in (amped.estimate(LAUNCHING), amped.estimate("default", kernel_dispatch_time="3 us")):
            assert named["kernel_launch_time"] == 3e-6
            assert named.notices.count(told) == 1

    def test_nobody_is_advised_to_write_a_former_name(self) -> None:
        with pytest.raises(amped.AmpedError) as told:
            amped.estimate("default", kernel_dispatch_tme="3 us")
        assert "kernel_launch_time" in str(told.value)
        assert "kernel_dispatch_time" not in str(told.value)

    def test_the_former_and_the_new_name_at_once_are_told_as_one(self) -> None:
        with pytest.raises(amped.AmpedError, match="'kernel_launch_time' is set twice"):
            amped.estimate("default", kernel_dispatch_time="3 us", kernel_launch_time="4 us")

    def test_a_user_s_table_has_columns_and_lists_of_columns_by_former_names(self, tmp_path: Path) -> None:
        row = {"extends": "A100 SXM 80GB", "kernel_dispatch_time": "7 us", "unverified": ["kernel_dispatch_time"]}
        (tmp_path / "mine.json").write_text(json.dumps({"table": "kernel_efficiencies", "rows": {"mine": row}}))
        asked = read_scenario("default", {"kernel_efficiencies": "mine"}, tmp_path)
        assert asked.sources.given["kernel_launch_time"] == 7e-6
        assert "kernel_launch_time" in asked.sources.rows["kernel_efficiencies"].unverified
        assert [n for n in asked.sources.notices if "is called kernel_launch_time now" in n]

    def test_results_are_found_by_former_names(self) -> None:
        estimate = amped.estimate("default")
        assert estimate["held_by_allocator_bytes"] == estimate["allocator_reserved_bytes"]
        assert "held_by_allocator_bytes" in estimate
        assert amped.explain("held_parameters").name == "fullest_stage_parameters"

    def test_what_is_a_field_of_records_now_is_explained_with_them(self) -> None:
        found = amped.explain("middle_stage_state_bytes")
        assert found.name == "stage_states"
        assert [row["name"] for row in found.rows] == ["first", "between", "last"]
        with pytest.raises(amped.AmpedError, match="amped explain stage_states tells it"):
            amped.estimate("default")["middle_stage_state_bytes"]

    def test_what_is_typed_for_a_verb_is_told_beside_its_output(self) -> None:
        told = "note: 'held_by_allocator_bytes' is called allocator_reserved_bytes now\n"
        name, small = "held_by_allocator_bytes", ("minimal", "--space", "degrees", "--top", "1")
        for words in (("explain", name), ("sensitivity", "--of", name), ("explore", *small, "--objective", name),
                      ("explore", *small, "--where", f"{name} < 1 TB")):  # fmt: skip
            done = CliRunner().invoke(app, words, catch_exceptions=False)
            assert done.exit_code == 0, done.output
            assert done.stderr.count(told) == 1

    def test_an_exploration_ranks_and_filters_by_former_names(self) -> None:
        found = amped.explore(
            "minimal", space="degrees", objective="held_by_allocator_bytes", where="held_parameters < 1e12", top=1
        )
        assert found.objective == "allocator_reserved_bytes"

    def test_formulas_written_with_former_names_still_run(self, tmp_path: Path) -> None:
        mine = tmp_path / "mine.py"
        mine.write_text(
            "from amped.quantity import quantity\n\n\n"
            '@quantity("s")\ndef kernel_dispatch_time():\n    """Launch. Source: mine."""\n    return 5e-6\n\n\n'
            '@quantity("s")\ndef time_of_ten_launches(kernel_dispatch_time):\n'
            '    """Ten. Source: mine."""\n    return 10 * kernel_dispatch_time\n'
        )
        assert amped.explain("time_of_ten_launches", formulas=mine, kernel_dispatch_time="4 us").value == pytest.approx(
            4e-5
        )


class TestTheyArePrintedWhereTheyAreAskedFor:
    def test_an_estimate_has_the_new_keys_and_with_an_option_the_old_ones(self) -> None:
        today, before = (json.loads(printed("estimate", "--json", *more)) for more in ((), ("--old-names",)))
        assert "allocator_reserved_bytes" in today
        assert "held_by_allocator_bytes" not in today
        assert before == {next((o for o, n in FORMER.items() if n == name), name): v for name, v in today.items()}
        assert set(BEFORE["results"]) <= set(before) | {"smallest_change_that_fits"}

    def test_rows_have_headers_by_former_names(self) -> None:
        text = printed(
            "explore", "minimal", "--space", "degrees", "--format", "csv", "--old-names",
            "--objective", "allocator_reserved_bytes",
        )  # fmt: skip
        header = next(csv.reader(text.splitlines()))
        assert "held_by_allocator_bytes" in header

    def test_the_next_command_prints_the_new_ones_again(self) -> None:
        printed("estimate", "--json", "--old-names")
        assert "allocator_reserved_bytes" in json.loads(printed("estimate", "--json"))
