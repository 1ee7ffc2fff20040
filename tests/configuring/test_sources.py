"""Configs: where each value comes from, and lists, which are sweeps."""

import pytest

from amped.base.errors import ConfigError
from amped.configuring.sources import Calculated, Given, LookedUp
from amped.library import estimate
from amped.tables.table_files import KERNELS
from amped.theory.language.quantity import ACCELERATOR, MAPPING, NETWORK, SYSTEM
from tests.helpers.config import config, sources, the_problem


class TestWhereAValueComesFrom:
    def test_a_value_is_given(self):
        origin = sources(config(batch_size=512)).origins["batch_size"]
        assert origin == Given(512.0, 512, f"{NETWORK}.parameters.batch_size")

    def test_calculated_silences_the_table_row(self):
        found = sources(config(feedforward_dimension={"calculated": True}))
        assert found.calculated["feedforward_dimension"] == Calculated(f"{NETWORK}.parameters.feedforward_dimension")
        assert "feedforward_dimension" not in found.given
        assert sources(config()).given["feedforward_dimension"] == 14336

    @pytest.mark.parametrize("value", [None, 7, "many", [1, 2]])
    def test_with_calculated_or_looked_up_the_value_is_ignored(self, value):
        found = sources(config(
            feedforward_dimension={"value": value, "calculated": True, "from_lookup_table": False},
            layers={"value": value, "calculated": False, "from_lookup_table": True},
        ))  # fmt: skip
        assert "feedforward_dimension" not in found.origins
        assert found.given["layers"] == 32

    def test_from_lookup_table_takes_the_column_of_its_name(self):
        origin = sources(config(context={"from_lookup_table": True})).origins["context"]
        assert isinstance(origin, LookedUp)
        assert (origin.value, origin.row.name, origin.column) == (8192.0, "Llama 3 8B", "context")

    def test_lookup_name_takes_another_column(self):
        origin = sources(config(context={"from_lookup_table": True, "lookup_name": "maximum_context"})).origins[
            "context"
        ]
        assert origin.column == "maximum_context"

    def test_lookup_name_may_be_amped_s_own(self):
        entry = {"from_lookup_table": True, "lookup_name": "tokens"}
        assert sources(config(vocabulary_size=entry)).given["vocabulary_size"] == 128256

    def test_what_the_config_leaves_out_comes_from_the_rows_it_names(self):
        found = sources(config())
        assert {c: row.name for c, row in found.rows.items()} == {
            NETWORK: "Llama 3 8B", SYSTEM: "DGX H100", ACCELERATOR: "H100 SXM", KERNELS: "H100 SXM",
        }  # fmt: skip
        assert found.given["number_of_cores"] == 132

    def test_a_parameter_may_stand_in_another_category(self):
        assert sources(config(MAPPING, dropout=0.5)).given["dropout"] == 0.5

    def test_a_choice_is_read_without_case_spaces_and_hyphens(self):
        assert sources(config(MAPPING, activation_recomputation="Full")).choices["activation_recomputation"] == "full"

    @pytest.mark.parametrize(("written", "value"), [(True, 1.0), (False, 0.0), (1, 1.0), (0, 0.0)])
    def test_a_flag_is_true_or_false_or_one_or_zero(self, written, value):
        assert sources(config(flash_attention=written)).given["flash_attention"] == value

    @pytest.mark.parametrize(("written", "number"), [(16, 2.0), ("16 bit", 2.0), ("2 byte", 2.0)])
    def test_a_precision_is_in_bits_unless_it_says_bytes(self, written, number):
        assert sources(config(weight_precision=written)).given["weight_precision"] == number


class TestSweeps:
    def test_a_list_is_a_sweep_each_value_read_like_one(self):
        found = sources(config(batch_size=[256, "1 k"], inter_accelerator_bandwidth=["900 GB/s", "3.6 Tbit/s"]))
        assert found.sweeps == {"batch_size": (256.0, 1000.0), "inter_accelerator_bandwidth": (900e9, 450e9)}
        assert not {"batch_size", "inter_accelerator_bandwidth"} & set(found.given)

    def test_a_list_of_choices(self):
        assert sources(config(MAPPING, activation_recomputation=["none", "Full"])).sweeps == {
            "activation_recomputation": ("none", "full")
        }

    def test_a_list_takes_the_place_of_what_the_row_has(self):
        found = sources(config(context=[2048, 4096]))
        assert "context" not in found.given

    def test_a_list_from_the_caller(self):
        assert sources(config(), batch_size=[256, 512]).sweeps == {"batch_size": (256.0, 512.0)}

    def test_a_list_of_rows(self):
        written = config()
        written[NETWORK]["lookup_config"]["lookup_table_row"] = ["Llama 3 8B", "GPT-3 175B"]
        assert sources(written).row_sweeps == {NETWORK: ("Llama 3 8B", "GPT-3 175B")}

    @pytest.mark.parametrize("values", [[256, 256], [1000, "1 k"]])
    def test_a_value_that_stands_twice_is_refused(self, values):
        assert the_problem(config(batch_size=values)).what == "a value stands twice in the list"

    def test_estimate_refuses_every_list_and_names_the_verb(self):
        written = config(batch_size=[256, 512], context=[2048, 4096])
        with pytest.raises(ConfigError) as caught:
            estimate(written)
        assert [p.what for p in caught.value.problems] == [
            "'batch_size' is a list, and an estimate takes one value",
            "'context' is a list, and an estimate takes one value",
        ]
        assert "`amped explore` takes lists" in str(caught.value)
