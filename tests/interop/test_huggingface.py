"""A config.json becomes a network, key by key; what amped cannot express is said."""

import json
from dataclasses import replace
from typing import Any

import pytest

from amped.base.errors import AmpedError, ConfigError, FileError
from amped.interop.huggingface import NESTED, read
from amped.interop.records import Imported
from tests.helpers.interop import Real, counted_parameters, default_of, keys_told, real_configs
from tests.helpers.places import ROOT
from tests.helpers.published_networks import made_class


def imported(**config: Any) -> Imported:
    return read(config, "config.json")


def without_modules(found: Imported, model_type: str = "") -> Imported:
    """The network without what its causal class in transformers does not load: modules for further tokens, and the towers of some."""
    absent = (
        "multi_token_prediction_layers",
        *(["tower_"] if model_type in ("llama4", "qwen3_5", "qwen3_5_moe") else ()),
    )
    return replace(found, values={n: v for n, v in found.values.items() if not n.startswith(absent)})


def verdict(real: Real) -> str:
    """What amped makes of a real config: its exact size, a size with what it cannot express, or a refusal."""
    try:
        found = read(real.config, real.model_type)
    except AmpedError:
        return "refused"
    if found.report.unsupported:
        return "unsupported"
    assert counted_parameters(without_modules(found, real.model_type)) == real.parameters, real.model_type
    return "exact"


def test_a_network_without_a_warning_has_exactly_the_parameters_of_the_model_class() -> None:
    verdicts = [verdict(real) for real in real_configs()]
    assert len(verdicts) == 196
    assert verdicts.count("exact") >= 175
    assert verdicts.count("refused") <= 2


def test_files_with_all_keys_that_their_makers_publish_are_read_without_loss() -> None:
    """`published_keys.json` has the keys of the files of the row; most of these keys are not those of the class of transformers."""
    from amped.tables.tables import user_tables

    files = json.loads((ROOT / "tests" / "data" / "published_keys.json").read_text("utf-8"))
    for row, config in files.items():
        found = read({key: value for key, value in config.items() if value is not None}, row)
        assert [str(line) for line in found.report.unsupported] == [], row
        columns = user_tables().row("transformer_network_parameters", row).columns
        biases = found.values.get("router_bias", False) != columns.get("router_bias", False)
        assert not biases, row
        assert counted_parameters(without_modules(found)) == columns["parameters_computed"], row


def test_layers_with_heads_of_another_setting_are_told() -> None:
    other = {"attention_type": "sliding_attention", "num_attention_heads": 48}
    kinds = ["full_attention"] + ["sliding_attention"] * 3
    found = imported(**LLAMA | {"model_type": "step3p5"}, layer_types=kinds * 8, sliding_window=512, attention_other_setting=other,
                     moe_num_experts=8, moe_top_k=2, moe_intermediate_size=64, moe_layers_enum="2,3")  # fmt: skip
    (told,) = (line for line in found.report.unsupported if line.key == "attention_other_setting")
    assert told.entry is not None
    assert told.entry.layers == 24
    assert (found.values["number_of_MoE_layers"], found.values["mixture_layer_pattern"]) == (2, "0*2,1*2,0*28")


def test_no_key_of_a_real_config_is_dropped_in_silence() -> None:
    for real in real_configs():
        try:
            told = keys_told(read(real.config, real.model_type).report)
        except AmpedError:
            continue
        inner = [real.config[key] for key in NESTED if isinstance(real.config.get(key), dict)]
        for part in (real.config, *inner):
            assert set(part) - told - set(NESTED) == set(), real.model_type


LLAMA = {
    "model_type": "llama", "hidden_size": 4096, "num_hidden_layers": 32, "num_attention_heads": 32, "num_key_value_heads": 8,
    "intermediate_size": 14336, "vocab_size": 128256, "max_position_embeddings": 8192, "tie_word_embeddings": False,
}  # fmt: skip


def test_llama_3_8b_is_the_row_of_the_table() -> None:
    from amped.tables.tables import user_tables

    row = user_tables().row("transformer_network_parameters", "Llama 3 8B").columns
    values = imported(**LLAMA).values
    assert counted_parameters(imported(**LLAMA)) == row["parameters_exact"]
    assert {name: row[name] for name in values if name in row and name != "context"} == {
        name: value for name, value in values.items() if name in row and name != "context"
    }


def test_experts_latent_attention_and_further_tokens_of_deepseek_v3() -> None:
    values = read(default_of("deepseek_v3"), "f").values
    # 128 + 64 rotary entries a head; 3 dense layers of 61
    assert (values["head_dimension"], values["rotary_head_dimension"], values["value_head_dimension"]) == (192, 64, 128)
    assert (values["number_of_MoE_layers"], values["mixture_layer_pattern"]) == (58, "0*3,1*58")
    assert (values["number_of_experts"], values["experts_per_token"], values["number_of_shared_experts"]) == (256, 8, 1)
    assert values["multi_token_prediction_layers"] == 1


@pytest.mark.parametrize(
    ("model_type", "window", "layers"),
    [("gemma3_text", 4096, 22), ("gemma2", 4096, 13), ("gpt_oss", 128, 18), ("gpt_neo", 256, 12)],
)
def test_layers_with_a_window_are_counted(model_type: str, window: int, layers: int) -> None:
    values = read(default_of(model_type), "f").values
    assert (values["attention_window"], values["number_of_windowed_layers"]) == (window, layers)


def test_a_window_that_is_switched_off_is_none() -> None:
    off = imported(**LLAMA, sliding_window=4096, use_sliding_window=False)
    assert "attention_window" not in off.values
    # Qwen2: the layers from max_window_layers on have the window
    some = imported(**LLAMA, sliding_window=4096, use_sliding_window=True, max_window_layers=28)
    assert some.values["number_of_windowed_layers"] == 4


def test_every_second_layer_is_a_mixture_of_qwen3() -> None:
    config = default_of("qwen3_moe") | {"num_hidden_layers": 6, "decoder_sparse_step": 2, "mlp_only_layers": [3]}
    # layers 1, 3 and 5 would be mixtures, and layer 3 is listed as dense
    values = read(config, "f").values
    assert (values["number_of_MoE_layers"], values["mixture_layer_pattern"]) == (2, "0,1,0*3,1")


def test_a_layer_of_longcat_is_two_with_a_mixture_beside_them() -> None:
    values = read(default_of("longcat_flash"), "f").values
    assert (values["layers"], values["number_of_MoE_layers"], values["mixture_layer_pattern"]) == (
        56,
        28,
        ",".join(["1,0"] * 28),
    )
    # 12 of 512 + 256 are chosen: 8 of them compute; the dense network of the first layer is a shared expert
    assert (values["experts_per_token"], values["zero_compute_experts"]) == (8, 256)
    assert values["shared_experts_feedforward_dimension"] == values["feedforward_dimension"] == 12288


def test_a_decoder_of_other_sizes_than_its_encoder_is_told() -> None:
    alike = read(default_of("bart"), "f")
    assert alike.report.unsupported == []
    unlike = read(default_of("bart") | {"decoder_ffn_dim": 1024}, "f")
    assert [str(line) for line in unlike.report.unsupported] == [
        "decoder_ffn_dim: 1024: read as those of the encoder, 4096"
    ]


def test_a_decoder_alone_that_attends_to_an_encoder_has_cross_attentions() -> None:
    assert read(default_of("trocr"), "f").values["cross_attention_layers"] == 12
    decoder = default_of("bert") | {"is_decoder": True, "add_cross_attention": True}
    plain, attending = (counted_parameters(read(config, "f")) for config in (default_of("bert"), decoder))
    # queries, keys, values and output of 768 with biases, and a norm, in 12 layers
    assert attending - plain == 12 * (4 * 768 * 768 + 4 * 768 + 2 * 768)
    told = read(default_of("trocr") | {"cross_attention_hidden_size": 384}, "f").report.unsupported
    assert [line.key for line in told] == ["cross_attention_hidden_size"]


def test_a_checkpoint_of_deepseek_v4_says_its_layers_by_the_tokens_of_an_entry() -> None:
    """43 numbers and one of the module for further tokens: 2 windows alone, 21 of 4 tokens and 20 of 128."""
    config = default_of("deepseek_v4") | {"layer_types": None, "compress_ratios": [0, 0, *([4, 128] * 21)]}
    found = read(config, "config.json")
    names = (
        "number_of_sparsely_compressed_layers",
        "number_of_heavily_compressed_layers",
        "attention_window",
        "residual_streams",
    )
    assert found.report.unsupported == []
    assert [found.values[name] for name in names] == [21, 20, 128, 4]


def test_blocks_of_keys_are_read_from_the_class_and_from_the_section_of_a_checkpoint() -> None:
    """3 layers with all keys, 57 with 16 blocks of 128."""
    config, listed = default_of("minimax_m3_vl_text"), ["full_attention"] * 3 + ["minimax_m3_sparse"] * 57
    names = (
        "indexer_heads",
        "indexer_head_dimension",
        "indexed_keys",
        "indexed_block_tokens",
        "number_of_sparse_attention_layers",
    )
    section = {
        "sparse_num_index_heads": 4,
        "sparse_index_dim": 128,
        "sparse_block_size": 128,
        "sparse_topk_blocks": 16,
        "sparse_attention_freq": [0] * 3 + [1] * 57,
    }
    plain = {name: value for name, value in config.items() if not name.startswith("index_") and name != "layer_types"}
    for raw in (config | {"layer_types": listed}, plain | {"sparse_attention_config": section}):
        found = read(raw, "config.json")
        assert found.report.unsupported == []
        assert [found.values[name] for name in names] == [4, 128, 2048, 128, 57]


@pytest.mark.thorough
def test_layers_that_share_the_keys_of_an_indexer_have_none() -> None:
    pytest.importorskip("transformers", reason="needs transformers 5.23.0")
    torch = pytest.importorskip("torch", reason="needs the extra torch")
    config = default_of("glm_moe_dsa") | {"indexer_types": ["full", "shared", "shared"] * 26}
    found = read(config, "f")
    assert (found.report.unsupported, found.values["number_of_indexer_layers"]) == ([], 26)
    with torch.device("meta"):
        assert made_class(config).num_parameters() == counted_parameters(without_modules(found))


def test_one_expert_is_a_dense_network() -> None:
    values = imported(**LLAMA, num_local_experts=1, num_experts_per_tok=1).values
    assert not {name for name in values if "expert" in name.lower()}


def test_a_language_model_is_found_inside_a_network_of_several_kinds() -> None:
    found = imported(
        model_type="llava",
        text_config=LLAMA,
        vision_config={"model_type": "my_vision", "hidden_size": 1024},
        image_token_index=7,
    )
    assert found.values["layers"] == 32
    assert [line.key for line in found.report.unsupported] == ["vision_config"]


def test_kinds_of_layers_that_amped_has_not_are_told_with_their_number() -> None:
    kinds = ["linear_attention", "linear_attention", "full_attention", "linear_attention"] * 8
    told = [str(line) for line in imported(**LLAMA, layer_types=kinds).report.unsupported]
    assert told == [
        "layer_types: 24 of 32 layers are linear_attention: a kind that amped does not know; read as layers with full attention"
    ]


def test_an_unknown_network_and_an_unknown_key_are_told_and_strict_refuses_them() -> None:
    found = imported(**LLAMA | {"model_type": "llama9"}, mystery=3)
    assert [line.key for line in found.report.unsupported] == ["model_type", "mystery"]
    with pytest.raises(ConfigError, match="mystery: 3: amped does not know this key"):
        found.refuse_unsupported()
    assert imported(**LLAMA).report.unsupported == []


def test_what_the_file_does_not_say_is_told_as_taken() -> None:
    without_ties = {name: value for name, value in LLAMA.items() if name != "tie_word_embeddings"}
    found = imported(**without_ties)
    assert found.values["tied_embeddings"] is True
    assert [line.key for line in found.report.defaulted] == ["context", "tied_embeddings"]
    assert found.values["context"] == 4096  # of at most 8192


@pytest.mark.parametrize(
    ("change", "told"),
    [
        ({"num_hidden_layers": None}, "has no layers"),
        ({"hidden_size": "wide"}, "hidden_size"),
        ({"num_attention_heads": True}, "num_attention_heads"),
        ({"hidden_size": [1, 2]}, "hidden_size"),
        ({"sliding_window": "all"}, "sliding_window"),
        ({"num_local_experts": 8, "mlp_layer_types": 5}, "mlp_layer_types: 5 is no list of words"),
        ({"num_local_experts": 8, "first_k_dense_replace": -1}, "first_k_dense_replace"),
    ],
)
def test_a_wrong_value_is_told_with_its_key(change: dict[str, Any], told: str) -> None:
    with pytest.raises((ConfigError, FileError), match=told):
        imported(**{**LLAMA, **change})
