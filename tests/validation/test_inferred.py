"""What a row's columns leave open and its numbers settle: networks of its shape, and layers that divide by nothing."""

import csv

import pytest

from amped.configuring.scenario import read_scenario
from amped.estimation.estimation import Estimation, estimated
from amped.validation.measurements import read_measurements

DENSE = {"id": "mine", "layers": 36, "hidden_size": 4096, "ffn_hidden_size": 12288, "attention_heads": 32, "kv_heads": 8,
         "gated_mlp": 1, "vocab_size": 151936, "seq_len": 4096, "accelerator": "H100 SXM", "gpus": 64,
         "framework": "torchtitan", "global_batch": 256, "micro_batch": 1, "virtual_pipeline_stages": 1, "measured_step_time_s": 5.0}  # fmt: skip
MIXTURE = DENSE | {"layers": 24, "hidden_size": 2880, "ffn_hidden_size": 2880, "attention_heads": 64, "num_experts": 32,
                   "experts_topk": 4, "framework": "NeMo AutoModel", "ep": 8, "notes": "head_dim=64"}  # fmt: skip

WIDE = {"layers": 80, "hidden_size": 8192, "ffn_hidden_size": 28672, "attention_heads": 64, "tp": 8, "gpus": 32}


@pytest.fixture
def read(tmp_path):
    def one(row):
        path = tmp_path / "own.csv"
        with path.open("w", newline="", encoding="utf-8") as stream:
            writer = csv.DictWriter(stream, list(row))
            writer.writeheader()
            writer.writerow(row)
        return read_measurements(path)[0]

    return one


def values(m):
    return {n: e["value"] for s in m.config.values() if isinstance(s, dict) for n, e in s["parameters"].items()}


def estimate(m):
    return estimated(read_scenario(dict(m.config)), Estimation)


def fits_with(m, **changed):
    config = {**m.config, "mapping_parameters": {**m.config["mapping_parameters"]}}
    parameters = config["mapping_parameters"]["parameters"] | {n: {"value": v} for n, v in changed.items()}
    config["mapping_parameters"]["parameters"] = parameters
    return bool(estimated(read_scenario(config), Estimation)["fits_in_memory"])


class TestNetworksOfTheSameShape:
    def test_a_shape_that_is_known_tells_what_no_column_asks_for(self, read):
        """A dense network of 36 layers and 4096 wide with 8 key heads is Qwen3 8B, whatever the row calls it."""
        m = read(DENSE | {"model_name": "ours"})
        assert values(m)["query_key_norm"] is True
        assert "networks of this shape: Qwen3 8B" in m.assumed["query_key_norm"]

    def test_experts_are_of_the_shape(self, read):
        found = values(read(MIXTURE))
        assert {found[name] for name in ("expert_bias", "query_key_value_bias", "attention_sinks")} == {True}

    @pytest.mark.parametrize(
        "other", [{"layers": 35}, {"ffn_hidden_size": 12032}, {"kv_heads": 4}, {"ffn_hidden_size": ""}]
    )
    def test_another_shape_is_another_network(self, read, other):
        assert "query_key_norm" not in values(read(DENSE | other | {"model_name": "Qwen3 8B"}))

    def test_what_the_notes_say_counts_more(self, read):
        assert values(read(DENSE | {"notes": "query_key_norm=false"}))["query_key_norm"] is False


class TestLayersThatDivideByNothing:
    @pytest.mark.parametrize(("layers", "stages", "chunks", "first", "last"), [
        (61, 4, 1, 15, 14), (61, 8, 1, 7, 6), (94, 8, 1, 11, 11), (35, 2, 1, 18, 17), (61, 4, 8, 15, 14),
    ])  # fmt: skip
    def test_the_ends_have_fewer(self, read, layers, stages, chunks, first, last):
        m = read(DENSE | {"layers": layers, "pp": stages, "virtual_pipeline_stages": chunks})
        e = estimate(m)
        assert (e["first_stage_layers"], e["last_stage_layers"]) == (first, last)
        assert ("uneven_chunks" in m.assumed) == (chunks > 1)

    def test_layers_that_divide_stay_as_they_are(self, read):
        m = read(DENSE | {"pp": 4, "virtual_pipeline_stages": 3})
        assert not {"number_of_first_stage_layers", "uneven_chunks"} & m.assumed.keys()

    def test_chunks_alone_may_be_uneven(self, read):
        m = read(DENSE | {"pp": 4, "virtual_pipeline_stages": 2})
        assert m.assumed.keys() >= {"uneven_chunks"}
        even = estimate(read(DENSE | {"pp": 4, "virtual_pipeline_stages": 3}))
        plain = estimate(read(DENSE | {"pp": 4, "virtual_pipeline_stages": 1}))
        assert even["pipeline_bubble_time"] < estimate(m)["pipeline_bubble_time"] < plain["pipeline_bubble_time"]

    def test_what_the_notes_say_of_stages_counts(self, read):
        m = read(DENSE | {"layers": 61, "pp": 4, "notes": "first_stage_layers=13"})
        assert values(m)["number_of_first_stage_layers"] == 13
        assert "number_of_last_stage_layers" not in values(m)


class TestPipelinesOfShardedWeights:
    @pytest.mark.parametrize("stage", [2, 3])
    def test_in_a_pipeline_weights_stay_gathered_and_gradients_are_added_up_first(self, read, stage):
        m = read(DENSE | {"pp": 4, "zero_stage": stage})
        assert values(m)["zero_stage"] == 1
        assert "weights stay gathered" in m.assumed["zero_stage"]
        assert values(read(DENSE | {"zero_stage": stage}))["zero_stage"] == stage

    def test_a_pipeline_cuts_local_batches_into_the_row_s_micro_batches(self, read):
        said = {"micro_batch": 1, "notes": "local batch 8; grad accum 4"}
        assert values(read(DENSE | said | {"pp": 4}))["microbatch_size"] == 1
        assert values(read(DENSE | said | {"global_batch": 2048}))["microbatch_size"] == 8


class TestLocalBatchesOfTorchtitan:
    row = DENSE | {"pp": 4, "dp": 16, "source": "a run of 2024", "notes": "local batch 16"}

    @pytest.mark.parametrize("written", ["", 16])
    @pytest.mark.parametrize(("year", "size"), [(2024, 4), (2025, 1)])
    def test_a_pipeline_cuts_them_for_its_stages_and_later_into_sequences(self, read, written, year, size):
        row = self.row | {"micro_batch": written, "source": f"a run of {year}"}
        m = read(row)
        assert values(m)["microbatch_size"] == size
        assert "cuts a local batch of 16 into as many as" in m.assumed["microbatch_size"]
        assert values(read(row | {"notes": ""}))["microbatch_size"] == size

    @pytest.mark.parametrize(
        "other", [{"micro_batch": 2}, {"pp": 1, "dp": 64, "notes": ""}, {"framework": "Megatron-LM", "micro_batch": 16}]
    )
    def test_all_else_stays_as_it_is(self, read, other):
        m = read(self.row | {"micro_batch": 1} | other)
        assert "cuts" not in m.assumed.get("microbatch_size", "")
        assert values(m)["microbatch_size"] == other.get("micro_batch", 1)


@pytest.mark.parametrize("written", ["fp8", "FP8", "mxfp8", "fp8-cs", "FP8 (E4M3)"])
def test_recipes_of_fp8_are_fp8(read, written):
    assert values(read(DENSE | {"precision": written}))["matrix_precision"] == "fp8"


@pytest.mark.parametrize("column", ["num_experts", "experts_topk", "moe_layer_freq", "kv_heads"])
def test_a_zero_is_as_if_nothing_stood_there(read, column):
    assert read(DENSE | {column: 0}).config == read(DENSE | {column: ""}).config


@pytest.mark.parametrize("column", ["tp", "pp", "cp", "ep", "virtual_pipeline_stages"])
def test_a_zero_of_what_cuts_is_one(read, column):
    assert read(DENSE | {column: 0}).config == read(DENSE | {column: 1}).config


@pytest.mark.parametrize("framework", ["Megatron-LM", "Megatron-DeepSpeed"])
def test_megatron_adds_up_gradients_of_bf16_in_full_precision(read, framework):
    row = DENSE | {"framework": framework, "source": "someone 2021"}
    found = {precision: values(read(row | {"precision": precision})) for precision in ("fp16", "bf16")}
    assert {precision: of["gradient_precision"] for precision, of in found.items()} == {"fp16": 16, "bf16": 32}


@pytest.mark.parametrize("written", ["fp4", "NVFP4", "mxfp4"])
def test_recipes_of_fp4_are_fp4(read, written):
    m = read(DENSE | {"precision": written, "accelerator": "B200 SXM"})
    assert values(m)["matrix_precision"] == "fp4"
    assert estimate(m)["step_time"] > 0


class TestRecipesThatNobodyWrote:
    def test_sequence_parallelism_is_taken_where_the_framework_has_it(self, read):
        assert values(read(DENSE | {"tp": 4, "framework": "Megatron-LM"}))["sequence_parallel"] is True
        assert values(read(DENSE | {"tp": 4, "framework": "Megatron-DeepSpeed"}))["sequence_parallel"] is False
        assert values(read(DENSE | {"tp": 4, "sequence_parallel": 0}))["sequence_parallel"] is False

    def test_recomputation_is_taken_where_nothing_fits_without(self, read):
        row = DENSE | WIDE | {"framework": "Megatron-LM", "zero_stage": 1, "gpus": 64, "pp": 4}
        assert values(read(row))["activation_recomputation"] == "none"
        large = read(row | {"micro_batch": 8})
        assert values(large)["activation_recomputation"] == "block"
        assert "the fastest that fits" in large.assumed["activation_recomputation"]
        told = read(row | {"micro_batch": 8, "activation_recompute": "none"})
        assert values(told)["activation_recomputation"] == "none"
        composer = read(row | {"micro_batch": 8, "pp": 1, "zero_stage": 3, "framework": "Composer"})
        assert values(composer)["activation_recomputation"] == "full"  # cannot choose layers

    def test_as_few_layers_are_recomputed_as_will_do(self, read):
        m = read(DENSE | WIDE | {"framework": "Megatron-LM", "zero_stage": 1, "gpus": 64, "pp": 4, "micro_batch": 8})
        chosen = values(m)["number_of_recomputed_layers"]
        assert 0 < chosen < 80 / 4
        fits = [fits_with(m, number_of_recomputed_layers=n) for n in (chosen - 1, chosen)]
        assert fits == [False, True]

    def test_activations_are_offloaded_where_that_is_faster_than_computing_them_again(self, read):
        row = DENSE | WIDE | {"framework": "Megatron-Bridge 25.11", "accelerator": "GB200", "gpus": 64, "tp": 1,
                              "zero_stage": 3, "micro_batch": 2, "seq_len": 8192, "precision": "fp8"}  # fmt: skip
        m = read(row)
        assert values(m)["activation_recomputation"] == "none"
        share = values(m)["activation_offload"]
        assert [fits_with(m, activation_offload=share - d) for d in (1 / 80, 0)] == [False, True]
        piped = values(read(row | {"pp": 4, "zero_stage": 1, "micro_batch": 8}))
        assert "activation_offload" not in piped
        older = values(read(row | {"framework": "NeMo 24.07"}))
        assert (older["activation_recomputation"], "activation_offload" in older) == ("block", False)

    def test_what_ran_is_modeled_though_nothing_is_estimated_to_fit(self, read):
        row = {k: v for k, v in (DENSE | WIDE | {"pp": 1, "tp": 1, "zero_stage": 0}).items() if k != "micro_batch"}
        m = read(row)
        assert "none is estimated to fit" in m.assumed["microbatch_size"]
        assert estimate(m)["step_time"] > 0

    def test_chunks_are_those_of_the_smallest_stage(self, read):
        row = {k: v for k, v in (DENSE | {"layers": 61, "pp": 4}).items() if k != "virtual_pipeline_stages"}
        found = values(read(row | {"framework": "Megatron-LM"}))
        assert (found["virtual_pipeline_stages"], found["uneven_chunks"]) == (14, True)


def test_an_accelerator_s_pod_stands_in_where_the_row_says_nothing_of_networks(read):
    row = DENSE | {"accelerator": "TPU v4", "gpus": 1024, "tp": 16, "framework": "JAX"}
    e = estimate(read(row))
    assert e["scale_up_domain_size"] == 4096
    assert e["inter_node_replicas"] == 1
