"""What amped does not model of five networks, against FLOPs counted by hand from their papers; and all classes of transformers.

FLOPs are those of a token in a forward pass, two for each multiply-accumulate, with all scores counted.
"""

import json
import math
from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from amped.base.errors import AmpedError
from amped.configuring.scenario import read_scenario
from amped.estimation.estimation import Estimation, estimated
from amped.estimation.not_modeled import bound, network_products
from amped.interop import huggingface
from amped.interop.as_config import as_config
from amped.interop.huggingface_sizes import at_most
from amped.interop.models import as_row
from amped.interop.records import Imported
from tests.helpers.cli import amped
from tests.helpers.interop import counted_parameters, default_of, real_configs
from tests.interop.test_huggingface import LLAMA, without_modules

# How the classes of transformers are read, and how many of them are within their bound without their model_type.
FILE_VERDICTS = {"exact": 175, "bounded": 16, "refused, with its size": 5}
UNKNOWN_BOUNDED = 165
# Norms and biases, which amped counts among the products of a token.
VECTORS = 1e-3
# A rounding of sums of parameters.
ROUNDING = 1e-9


class Counted(NamedTuple):
    """The parts of a network in multiply-accumulates of a token: without its context, and for each token of the context."""

    fixed: float
    of_context: float


def deepseek_v4(context: int) -> Counted:
    """43 layers: 23 read 128 keys and one of 128 tokens, 20 read 128 keys and the best 512 of one of 4 tokens; 4 residual streams.

    Queries 4096 * 1024 + 1024 * 64 * 512, keys 4096 * 512, output 64 * 512 * 1024 + 8 * 1024 * 4096: 106,954,752. Compressors:
    2 * 4096 * 512 and 4 * 4096 * 512. Indexer: 4 * 4096 * 128 + 1024 * 64 * 128 + 4096 * 64 = 10,747,904 (its scores are not counted).
    Reading a key: 64 * 2 * 512 = 65,536. Streams: 2 * 24 * 4 * 4096. Mixture: 7 * 3 * 4096 * 2048 + 4096 * 256. Head: 4096 * 129,280.
    """
    shared = 106_954_752 + 786_432 + 7 * 25_165_824 + 1_048_576
    heavy = 4_194_304 + 65_536 * 128
    sparse = 8_388_608 + 10_747_904 + 65_536 * (128 + min(context / 4, 512))
    fixed = 43 * shared + 23 * heavy + 20 * sparse + 529_530_880
    return Counted(fixed, 23 * 65_536 / 128)


def jamba(context: int) -> Counted:
    """28 layers of Mamba, 4 of attention; 16 dense layers and 16 mixtures.

    Mamba: 4096 * 16,384 + 8192 * 288 + 256 * 8192 + 8192 * 4096 = 105,119,744 of matrices, 4 * 8192 of the convolution, and for each
    of 8192 values the state of 16 decayed, written and read: 3 * 8192 * 16. Attention: 4096 * 128 * (2 * 32 + 2 * 8) = 41,943,040;
    scores 2 * 32 * 128 for a token of the context. Dense: 3 * 4096 * 14,336; mixture: twice that + 4096 * 16. Head: 4096 * 65,536.
    """
    del context
    mamba = 105_119_744 + 32_768 + 393_216
    rest = 16 * 176_160_768 + 16 * (2 * 176_160_768 + 65_536) + 268_435_456
    return Counted(28 * mamba + 4 * 41_943_040 + rest, 4 * 8192)


HYBRIDS = {"jamba": jamba}


def read(model_type: str) -> Imported:
    return huggingface.read(default_of(model_type), model_type)


def estimate(found: Imported, **values: object) -> Estimation:
    return estimated(read_scenario("minimal", {"model": as_row(found), **values}))


def together(e: Estimation, of: str) -> float:
    """The bound of a share of all that is not modeled, as an error."""
    return bound(e.unmodeled.shares[of]) if e.unmodeled else 0.0


@pytest.mark.parametrize("context", [4096, 131_072])
@pytest.mark.parametrize("model_type", HYBRIDS)
def test_the_bound_holds_the_flops_that_were_counted_by_hand(model_type: str, context: int) -> None:
    e = estimate(without_modules(read(model_type)), context=context, batch_size=64, microbatch_size=1)
    counted = HYBRIDS[model_type](context)
    by_hand = counted.fixed + counted.of_context * context
    bounds = math.log1p(together(e, "products") + VECTORS)
    assert abs(math.log(by_hand / network_products(e.results))) <= bounds


def test_the_products_of_a_network_are_those_that_amped_counts() -> None:
    """A mixture that is modeled whole: the products of a token times the tokens are the FLOPs of the model."""
    e = estimated(read_scenario("mixtral-8x7b"))
    flops = 6 * network_products(e.results) * e["batch_size"] * e["context"] / e["number_of_accelerators"]
    assert flops == pytest.approx(e["model_flops_per_accelerator"], rel=1e-3)


@pytest.mark.thorough
def test_a_config_says_first_what_is_not_modeled(tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text(json.dumps(default_of("jetmoe")), "utf-8")
    asked = ("--model", tmp_path, "--gpus", 512, "--seq", 131_072)
    assert amped("estimate", *asked, folder=tmp_path).stdout.startswith("NOT MODELED: time ± ")
    told = json.loads(amped("estimate", *asked, "--json", folder=tmp_path).stdout)
    assert told["grade"] == "not modelled"
    assert all(entry.keys() == {"what", "share", "bound_on_time", "bound_on_memory"} for entry in told["not_modeled"])
    assert all(entry["bound_on_time"] >= 0 for entry in told["not_modeled"])


@pytest.mark.parametrize("context", [4096, 131_072])
def test_deepseek_v4_has_284_billion_parameters_and_the_flops_counted_by_hand(context: int) -> None:
    """Norms, sinks and biases are parameters, and no products by hand: a thousandth."""
    found = without_modules(read("deepseek_v4"))
    e, counted = estimate(found, context=context, batch_size=64, microbatch_size=1), deepseek_v4(context)
    assert found.report.unsupported == []
    assert e["number_of_parameters"] == 284_325_869_015
    assert network_products(e.results) == pytest.approx(counted.fixed + counted.of_context * context, rel=1e-3)


def test_an_unknown_kind_of_feedforward_network_is_a_mixture_with_a_bound() -> None:
    found = huggingface.read(
        {**LLAMA, "model_type": "mixtral", "num_local_experts": 8, "num_experts_per_tok": 2, "mlp_layer_types": ["sparse", "soft_moe"] * 16},
        "config.json",
    )  # fmt: skip
    assert found.values["number_of_MoE_layers"] == 32
    (told,) = found.report.unsupported
    assert "16 of 32 layers are soft_moe: a kind of feed-forward network that amped does not know" in str(told)
    assert estimate(found).lacks_much


def test_an_imported_config_keeps_what_is_not_modeled() -> None:
    found = read("jetmoe")
    e = estimated(
        read_scenario(
            as_config(found),
            {"batch_size": 64, "tokens_to_train": 1e12, "number_of_accelerators": 64, "system": "DGX H100"},
        )
    )
    assert [each.what for each in e.not_modeled] == [str(line) for line in found.report.unsupported]
    assert e.lacks_much


def verdict(found: Imported, parameters: int) -> str:
    """Whether the parameters are exact, or within the bound of what is told; anything else fails."""
    e = estimate(found, tensor_parallel_degree=1)
    off = abs(math.log(e["number_of_parameters"] / parameters))
    assert off <= math.log1p(together(e, "parameters")) + ROUNDING, found.name
    return "bounded" if e.not_modeled else "exact"


def verdict_of_refused(error: AmpedError, config: Mapping[str, Any], parameters: int) -> str:
    """Whether a refusal says how large the network is at most, which has to hold."""
    if "by its own sizes it has at most" not in str(error):
        return "refused"
    sizes = at_most(config)
    assert sizes is not None
    assert sizes["parameters"] >= parameters
    return "refused, with its size"


def verdict_of_config(config: dict[str, Any], name: str, parameters: int, causal: str = "") -> str:
    """The verdict of a config.json, of the causal class of a model_type if it is given."""
    try:
        return verdict(without_modules(huggingface.read(config, name), causal), parameters)
    except AmpedError as error:
        return verdict_of_refused(error, config, parameters)


@pytest.mark.thorough
def test_no_class_of_transformers_is_wrong_in_silence() -> None:
    """Each default config has the parameters of its model, or each missing part is told with its bound; few have no layers
    of attention at all: they are refused with their size."""
    verdicts = Counter(verdict_of_config(r.config, r.model_type, r.parameters, r.model_type) for r in real_configs())
    assert verdicts == FILE_VERDICTS


@pytest.mark.parametrize(
    ("model_type", "told"),
    [
        ("rwkv", "recurrent layers, which have no attention; amped cannot read it as a language model; by its own sizes it has at most 9.07 billion"),
        ("blt", "three networks, one of bytes, one of patches and one that cuts bytes into patches; amped cannot read it"),
    ],
)  # fmt: skip
def test_what_cannot_be_read_as_a_language_model_is_refused_in_words_with_its_size(model_type: str, told: str) -> None:
    with pytest.raises(AmpedError, match=told):
        read(model_type)


def as_unknown(config: dict[str, Any]) -> dict[str, Any]:
    """A config.json as if amped had never seen its class."""
    inner = {key: {**config[key], "model_type": "future"} for key in huggingface.NESTED if key in config}
    return {**config, **inner, "model_type": "future"}


@pytest.mark.thorough
def test_a_class_that_amped_has_not_seen_is_inside_the_bound_of_its_own_sizes() -> None:
    """Each class with its model_type taken away: what amped reads is within the bound, or refused."""
    verdicts = Counter(
        verdict_of_config(as_unknown(real.config), real.model_type, real.parameters) for real in real_configs()
    )
    assert verdicts["exact"] == 0
    assert verdicts["bounded"] >= UNKNOWN_BOUNDED


@pytest.mark.parametrize(("section", "is_bounded"), [({"hidden_size": 1280, "num_hidden_layers": 32}, True), ({"architecture": "mobilenet"}, False)])  # fmt: skip
def test_a_tower_has_the_bound_of_its_own_section(section: dict[str, Any], is_bounded: bool) -> None:
    """32 layers of 4 + 12 matrices of 1280 x 1280 are 839 million, and a projector comes beside them."""
    found = huggingface.read(
        {"model_type": "llava", "text_config": LLAMA, "vision_config": {"model_type": "my_vision", **section}},
        "config.json",
    )
    (told,) = found.report.unsupported
    assert (told.entry is not None) == is_bounded
    assert told.entry is None or 839e6 < told.entry.parameters < 1.1e9


def test_an_unknown_class_and_its_unknown_keys_have_a_bound_of_their_sizes() -> None:
    """From a third to three times of what is read; an unknown key may be the width of three matrices in each layer."""
    found = huggingface.read({**LLAMA, "model_type": "llama9", "mystery_dim": 512}, "config.json")
    network, key = (told.entry for told in found.report.unsupported)
    assert network is not None
    assert key is not None
    assert key.parameters == 32 * (3 * 4096 * 512 + 4096 * 4096)
    e = estimate(found)
    assert 2 <= together(e, "parameters") < 3
    assert e.lacks_much


def test_an_unknown_key_of_a_known_class_is_refused() -> None:
    with pytest.raises(AmpedError, match="amped does not know this key"):
        estimate(huggingface.read({**LLAMA, "mystery_dim": 512}, "config.json"))


def test_keys_beside_a_tower_are_those_of_a_projector() -> None:
    """Three matrices of 36,864 x 4096, and one that joins 4 x 4 patches."""
    tower = {"hidden_size": 1280, "num_hidden_layers": 32}
    raw = {"model_type": "vision", "text_config": LLAMA, "vision_config": tower, "alignment_intermediate_size": 36_864}
    (_, told) = huggingface.read(raw, "config.json").report.unsupported
    assert told.entry is not None
    assert told.entry.parameters == 3 * 36_864 * 4096 + 16 * 4096 * 4096


def test_dbrx_has_132_billion_parameters() -> None:
    """Its class does not take its own defaults; the published network is 131.6 billion (its sections say the same layers)."""
    sections = {"attn_config": {"kv_n_heads": 8, "model_type": ""}, "ffn_config": {"ffn_hidden_size": 10_752, "moe_num_experts": 16, "moe_top_k": 4}}  # fmt: skip
    raw = {"model_type": "dbrx", "d_model": 6144, "n_heads": 48, "n_layers": 40, "vocab_size": 100_352, "tie_word_embeddings": False, **sections}  # fmt: skip
    found = huggingface.read(raw, "config.json")
    assert found.report.unsupported == []
    assert counted_parameters(found) == pytest.approx(131_596_523_520, rel=1e-6)


def test_one_of_two_stacks_is_not_read_as_both() -> None:
    with pytest.raises(AmpedError, match="the file is of one of two stacks"):
        estimate(huggingface.read(default_of("bart") | {"is_encoder_decoder": False}, "config.json"))


@pytest.mark.parametrize("change", [{"index_n_heads": None}, {"index_topk": True}])
def test_a_part_whose_sizes_are_not_said_has_no_bound(change: dict[str, Any]) -> None:
    found = huggingface.read({**default_of("dots3_note_text"), **change}, "config.json")
    with pytest.raises(AmpedError, match="the file does not say its sizes: not modeled, and amped knows no bound"):
        estimate(found)
    assert estimate(found, anyway=True).to_dict()["not_modeled"][0]["bound_on_time"] is None
