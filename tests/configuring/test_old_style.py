"""Configs of AMPeD's own time: its older names, its retired names, its bandwidths in bits."""

import pytest

from amped.base.aliases import aliases
from amped.base.errors import AmpedError, MappingError
from amped.configuring.config import read_config
from amped.library import estimate
from amped.theory.language.quantity import CATEGORIES, NETWORK, SYSTEM
from tests.helpers.config import KNOWN, OLD_STYLE, config, old_style, sources, the_problem
from tests.helpers.culprits import for_each


class TestAmpedsOlderNames:
    def test_the_whole_old_file_is_estimated(self):
        estimated = estimate(OLD_STYLE)
        assert estimated["tensor_parallel_degree"] == 8
        assert estimated["number_of_accelerators"] == 1024
        assert 0 < estimated["step_time"] < 1e3

    @for_each(sorted(aliases().renamed.items()))
    def test_a_renamed_parameter_is_read_under_its_new_name(self, old, new):
        written = {KNOWN[new].category or NETWORK: {"parameters": {old: {"value": 8}}}}
        entry = read_config(written, KNOWN).entries[new]
        assert (entry.written_name, entry.value) == (old, 8)

    def test_two_old_names_of_one_quantity_must_agree(self):
        assert sources(OLD_STYLE).given["head_dimension"] == 128
        problem = the_problem(old_style(key_query_value_length=64))
        assert problem.what == "'head_dimension' has two sources"

    @pytest.mark.parametrize(
        ("name", "value"), [("hidden_layer_dimension_MLP_1", 12288), ("summarization_len", "2.048 k")]
    )
    def test_a_name_for_an_equal_value_is_accepted_where_it_is_equal(self, name, value):
        assert estimate(old_style(**{name: value}))["step_time"] == estimate(OLD_STYLE)["step_time"]

    @pytest.mark.parametrize(
        ("name", "value", "other"),
        [("hidden_layer_dimension_MLP_1", 12289, "dimensionality"), ("summarization_len", 1024, "context")],
    )
    def test_a_name_for_an_equal_value_is_refused_where_it_differs(self, name, value, other):
        with pytest.raises(MappingError, match=f"{value} differs from {other} = ") as caught:
            estimate(old_style(**{name: value}))
        assert caught.value.problems[0].where == f"{NETWORK}.parameters.{name}"

    def test_a_name_for_an_equal_value_checks_the_command_line_too(self):
        with pytest.raises(AmpedError, match="context"):
            estimate("default", summarization_len=1024)

    @pytest.mark.parametrize(
        "written", [{"value": None}, {}, {"calculated": True, "from_lookup_table": True}, "8 parsecs"]
    )
    def test_a_name_for_an_equal_value_needs_one_too(self, written):
        assert the_problem(old_style(summarization_len=written)).where == f"{NETWORK}.parameters.summarization_len"

    def test_retired_names_are_accepted_and_said_once(self):
        notices = sources(OLD_STYLE).notices
        (told,) = [n for n in notices if n.startswith("not used any more: ")]
        named = told.removeprefix("not used any more: ").split(", ")
        written = [name for c in CATEGORIES for name in OLD_STYLE[c]["parameters"]]
        assert named == [name for name in written if name in aliases().retired]

    @for_each(sorted(aliases().retired))
    def test_a_retired_name_with_a_value_warns(self, name):
        notices = read_config(config(**{name: 7}), KNOWN).notices
        assert notices == (
            f"not used any more: {name}",
            f"warning: these retired parameters have a value that changes nothing: {name} = 7",
        )

    @pytest.mark.parametrize("written", [{"calculated": True}, {"value": None}, {"value": None, "calculated": True}])
    def test_a_retired_name_without_a_value_does_not_warn(self, written):
        assert read_config(config(expert_flag=written), KNOWN).notices == ("not used any more: expert_flag",)

    def test_a_retired_name_changes_nothing(self):
        assert sources(config(OPS_per_MAC=7)).given == sources(config()).given

    def test_a_retired_name_on_the_command_line_is_not_suggested_for_itself(self):
        problem = the_problem(config(), expert_flag=1)
        assert problem.where == "--set expert_flag"
        assert "did you mean 'expert_flag'" not in problem.advice

    @pytest.mark.parametrize(
        ("written", "number"),
        [
            ("2.4 T", 300e9),
            (2.4e12, 300e9),
            ("2.4 Tb", 300e9),
            ("2.4 Tb/s", 300e9),
            ("2.4 Tbit/s", 300e9),
            ("2400 Gbps", 300e9),
            ("300 GB/s", 300e9),
            ("300 GB", 300e9),
            ("300 Gbyte/s", 300e9),
            ("200 GiB/s", 200 * 2.0**30),
        ],
    )
    def test_bandwidths_without_a_byte_are_bits_in_an_old_file(self, written, number):
        found = sources(old_style(SYSTEM, inter_accelerator_bandwidth=written))
        assert found.given["inter_accelerator_bandwidth"] == pytest.approx(number, rel=1e-12)

    def test_the_conversion_to_bytes_is_told(self):
        told = [n for n in sources(OLD_STYLE).notices if "bits in a second" in n]
        assert told == [
            "inter_accelerator_bandwidth: '2.4 T' is read as bits in a second, 300 GB/s",
            "bandwidth_per_network_card: '200 Gb' is read as bits in a second, 25 GB/s",
        ]

    @pytest.mark.parametrize("written", ["300 GB/s", "300 GB", "300 Gbyte/s", "200 GiB/s"])
    def test_what_is_in_bytes_is_not_told_as_bits(self, written):
        found = sources(old_style(SYSTEM, inter_accelerator_bandwidth=written))
        assert not [n for n in found.notices if n.startswith("inter_accelerator_bandwidth") and "bits" in n]

    def test_the_command_line_is_in_bytes_even_for_an_old_file(self):
        assert sources(OLD_STYLE, inter_accelerator_bandwidth="300 G").given["inter_accelerator_bandwidth"] == 300e9

    def test_a_file_without_old_names_has_bytes(self):
        found = sources(config(SYSTEM, inter_accelerator_bandwidth="300 G"))
        assert found.given["inter_accelerator_bandwidth"] == 300e9
        assert not [n for n in found.notices if "bits" in n]


class TestWhatAmpedCalculatesInAnotherWay:
    def test_every_second_layer_of_a_mixture_is_one_and_this_is_said_once(self):
        scenario = sources(old_style(number_of_experts=16))
        (told,) = [notice for notice in scenario.notices if "calculated as AMPeD does" in notice]
        assert told == (
            "number_of_MoE_layers is calculated as AMPeD does: every second layer is a mixture, MoE_layer_interval = 2"
        )
        assert estimate(old_style(number_of_experts=16))["number_of_MoE_layers"] == 48

    def test_the_parameters_are_those_of_half_the_layers(self):
        found = estimate(old_style(number_of_experts=16))
        products, biases, router = 2 * 12288 * 49152, 49152 + 12288, 12288 * 16  # experts have no biases
        dense = estimate(OLD_STYLE)["number_of_parameters"]
        assert found["number_of_parameters"] == dense + 48 * (15 * products + router - biases)

    def test_it_follows_what_is_changed(self):
        mixture = old_style(number_of_experts=16)
        assert estimate(mixture, layers=49, pipeline_parallel_degree=1)["number_of_MoE_layers"] == 24
        assert estimate(mixture, number_of_experts=1)["number_of_MoE_layers"] == 0
        assert estimate(mixture, MoE_layer_interval=1)["number_of_MoE_layers"] == 96
        assert estimate(mixture, number_of_MoE_layers=12)["number_of_MoE_layers"] == 12

    def test_a_dense_network_and_a_config_of_today_are_left_alone(self):
        assert not [notice for notice in sources(OLD_STYLE).notices if "as AMPeD does" in notice]
        today = config(number_of_experts=16, number_of_MoE_layers={"calculated": True})
        assert estimate(today)["number_of_MoE_layers"] == estimate(today)["layers"]
