"""Configs overruled: a value that is set takes away what it determines, and says so."""

import pytest

from amped.theory.language.quantity import ACCELERATOR, MAPPING, NETWORK, SYSTEM
from tests.helpers.config import OLD_STYLE, config, sources


class TestSettingAValueTakesAwayWhatItDetermines:
    """Rule 7: `--set X` removes from the config every source that X determines, and says so."""

    @pytest.mark.parametrize(
        ("in_config", "name", "value"),
        [
            ({"tensor_parallel_degree": 4}, "intra_node_tensor_parallel_degree", 2),
            ({"tensor_parallel_degree": 4}, "inter_node_tensor_parallel_degree", 2),
            ({"intra_node_tensor_parallel_degree": 4}, "tensor_parallel_degree", 2),
            ({"inter_node_pipeline_parallel_degree": 4}, "pipeline_parallel_degree", 2),
            ({"intra_node_data_parallel_degree": 4}, "data_parallel_degree", 16),
            ({"inter_node_context_parallel_degree": 4}, "context_parallel_degree", 2),
            ({"intra_node_expert_parallel_degree": 4}, "expert_parallel_degree", 2),
            ({"microbatch_size": 2}, "number_of_microbatches_per_minibatch", 8),
            ({"number_of_microbatches_per_minibatch": 8}, "microbatch_size", 2),
            ({"samples": 10**6}, "tokens_to_train", "300 G"),
            ({"tokens_to_train": "300 G"}, "samples", 10**6),
            ({"tokens_to_train": "300 G"}, "number_of_steps", 1000),
            ({"number_of_steps": 1000}, "samples", 10**6),
            ({"number_of_nodes": 8}, "number_of_accelerators", 64),
            ({"number_of_accelerators": 64}, "number_of_nodes", 8),
            ({"inter_node_bandwidth": "400 GB/s"}, "bandwidth_per_network_card", "50 GB/s"),
        ],
    )  # fmt: skip
    def test_a_whole_its_parts_and_other_ways_to_say_the_same(self, in_config, name, value):
        (replaced,) = in_config
        written = config()
        written[MAPPING]["parameters"] = {}
        written[SYSTEM]["parameters"] = {}
        written = config(MAPPING, written, **in_config)
        assert replaced in sources(written).given
        found = sources(written, **{name: value})
        assert name in found.given
        assert replaced not in found.given
        assert f"--set {name} takes the place of {MAPPING}.parameters.{replaced}" in found.notices

    def test_a_whole_takes_away_both_parts_of_an_old_file(self):
        found = sources(OLD_STYLE, tensor_parallel_degree=4)
        assert found.given["tensor_parallel_degree"] == 4
        assert not {"intra_node_tensor_parallel_degree", "inter_node_tensor_parallel_degree"} & set(found.given)
        assert len([n for n in found.notices if n.startswith("--set tensor_parallel_degree takes the place of")]) == 2

    def test_a_part_keeps_the_other_part(self):
        given_values = sources(OLD_STYLE, intra_node_tensor_parallel_degree=4).given
        assert (
            given_values["intra_node_tensor_parallel_degree"],
            given_values["inter_node_tensor_parallel_degree"],
        ) == (4, 1)

    def test_a_clock_takes_away_the_peaks_of_the_row(self):
        found = sources(config(), frequency="1 GHz")
        assert found.given["frequency"] == 1e9
        assert not {"bf16_peak_flop_rate", "fp16_peak_flop_rate"} & set(found.given)

    def test_an_alias_sets_the_quantity(self):
        assert sources(config(), tensor_model_parallel_size=2).given["tensor_parallel_degree"] == 2

    def test_what_it_does_not_determine_stays_and_nothing_is_said(self):
        found = sources(config(), dropout=0.5)
        assert found.given["tensor_parallel_degree"] == 4
        assert found.notices == sources(config()).notices

    @pytest.mark.parametrize("names", [("tensor_parallel_degree", "intra_node_tensor_parallel_degree")])
    @pytest.mark.parametrize("backwards", [False, True])
    def test_two_values_that_are_set_do_not_take_each_other_away(self, names, backwards):
        written = dict(zip(names, (8, 4), strict=True))
        found = sources(config(), **dict(reversed(written.items())) if backwards else written)
        assert {name: found.given.get(name) for name in names} == written

    def test_a_row_that_is_named_takes_away_what_the_config_has_of_it(self):
        found = sources(config(layers=16), model="Llama 3 70B")
        assert (found.given["layers"], found.rows[NETWORK].name) == (80, "Llama 3 70B")
        assert "row 'Llama 3 70B' takes the place of what the config has for layers" in found.notices

    def test_a_system_brings_its_accelerator_and_an_accelerator_overrules_that(self):
        assert sources("default", system="DGX H100").rows[ACCELERATOR].name == "H100 SXM"
        found = sources("default", system="DGX H100", accelerator="H200")
        assert found.rows[ACCELERATOR].name == "H200 SXM"
        assert "system 'DGX H100' is built with H100 SXM; its network is kept for H200 SXM" in found.notices
