"""Encoders of images and of sound before a language model, held against transformers: their parameters, and the products of an image or a clip."""

import warnings
from collections.abc import Callable
from typing import Any

import pytest

import amped
from amped.interop import huggingface
from amped.interop.exporting import TARGETS
from tests.helpers.formulas import sectioned
from tests.helpers.round_machine import LOSSLESS
from tests.interop.test_real_frameworks import need, of_model

pytestmark = pytest.mark.filterwarnings("ignore")
LLAMA: dict[str, Any] = {
    "model_type": "llama", "hidden_size": 4096, "num_hidden_layers": 2, "num_attention_heads": 32, "intermediate_size": 11008,
    "vocab_size": 32064, "tie_word_embeddings": False,
}  # fmt: skip
CLIP = {"model_type": "clip_vision_model", "hidden_size": 1024, "intermediate_size": 4096, "num_hidden_layers": 24,
        "num_attention_heads": 16, "image_size": 336, "patch_size": 14}  # fmt: skip
SIGLIP = {"model_type": "siglip_vision_model", "hidden_size": 1152, "intermediate_size": 4304, "num_hidden_layers": 27,
          "num_attention_heads": 16, "image_size": 896, "patch_size": 14, "vision_use_head": False}  # fmt: skip
LLAMA_4 = {"hidden_size": 1408, "image_size": 336, "intermediate_size": 5632, "num_hidden_layers": 34, "num_attention_heads": 16,
           "patch_size": 14, "vision_output_dim": 4096}  # fmt: skip
# A text model of two layers. For each network: its class, its file, and the depth of its tower in the file's word.
TEXT = {
    "hidden_size": 2048,
    "num_hidden_layers": 2,
    "num_attention_heads": 16,
    "num_key_value_heads": 4,
    "intermediate_size": 4096,
}
NETWORKS: dict[str, tuple[str, dict[str, Any]]] = {
    "llava": ("Llava", {"vision_config": CLIP, "text_config": LLAMA}),
    "paligemma": ("PaliGemma", {"vision_config": SIGLIP | {"image_size": 224}, "projection_dim": 2048,
                                "text_config": {"model_type": "gemma", **TEXT}}),
    "gemma3": ("Gemma3", {"vision_config": SIGLIP, "text_config": TEXT}),
    "gemma4": ("Gemma4", {"vision_config": {"model_type": "gemma4_vision"}, "audio_config": None, "text_config": TEXT}),
    "llama4": ("Llama4", {"vision_config": LLAMA_4, "text_config": TEXT | {"num_local_experts": 2}}),
    "qwen2_vl": ("Qwen2VL", {"vision_config": {"hidden_size": 2048}, "text_config": TEXT}),
    "qwen2_5_vl": ("Qwen2_5_VL", {"vision_config": {"hidden_size": 1280, "out_hidden_size": 2048}, "text_config": TEXT}),
    "qwen3_vl": ("Qwen3VL", {"vision_config": {"out_hidden_size": 2048}, "text_config": TEXT}),
    "qwen3_5": ("Qwen3_5", {"vision_config": {"out_hidden_size": 2048}, "text_config": TEXT | {"layer_types": ["full_attention"] * 2}}),
    "qwen3_vl_moe": ("Qwen3VLMoe", {"vision_config": {"out_hidden_size": 2048}, "text_config": TEXT | {"num_experts": 2, "num_experts_per_tok": 1}}),
}  # fmt: skip
# What holds the tower and its projector in transformers.
OF_TOWER = ("visual", "vision_tower", "vision_model", "audio_tower", "multi_modal_projector", "embed_vision")
# Encoders of sound: the class, and what the section says beside the defaults.
OF_SOUND: dict[str, tuple[str, dict[str, Any]]] = {
    "qwen2_audio": ("Qwen2Audio", {"model_type": "qwen2_audio_encoder"}),
    "voxtral": ("Voxtral", {"model_type": "voxtral_encoder"}),
    "moss_transcribe_diarize": ("MossTranscribeDiarize", {"model_type": "moss_transcribe_diarize_audio", "num_mel_bins": 128}),
}  # fmt: skip
# Two layers, which are enough to count products on a processor.
FEW_LAYERS: dict[str, dict[str, Any]] = {
    "qwen2_vl": {"depth": 2}, "qwen2_5_vl": {"depth": 2, "fullatt_block_indexes": [1]},
    "qwen3_vl": {"depth": 2, "deepstack_visual_indexes": [0]},
}  # fmt: skip


def built(name: str, **vision: Any) -> tuple[Any, Any]:
    """The class's config and its model on the device meta; `vision` replaces values of the tower's section."""
    need("transformers", "5.23.0")
    import torch
    import transformers

    head, file = NETWORKS[name]
    config = getattr(transformers, f"{head}Config")(**{**file, "vision_config": file["vision_config"] | vision})
    config.vision_config._attn_implementation = "eager"
    with torch.device("meta"):
        return config, getattr(transformers, f"{head}ForConditionalGeneration")(config)


def read(config: Any) -> dict[str, Any]:
    return huggingface.read(config.to_dict(), "config.json").values


def estimated(values: dict[str, Any]) -> amped.Estimate:
    """One image before a sequence, on a machine without losses and with memory for all."""
    one = {"context": 4096, "batch_size": 1, "microbatch_size": 1, "number_of_accelerators": 1, "memory_capacity": "1000 TB",
           "tower_training": "frozen"}  # fmt: skip
    return amped.estimate(sectioned(LOSSLESS | values | one))


def test_a_tower_and_its_projector_from_a_file() -> None:
    """LLaVA-1.5 with CLIP ViT-L/14 at 336 pixels: (336/14)² = 576 patches, a class token, positions of 577 and two outer norms."""
    found = huggingface.read({"model_type": "llava", "text_config": LLAMA, "vision_config": CLIP}, "config.json")
    expected = {"tower_layers": 24, "tower_dimensionality": 1024, "tower_attention_heads": 16, "tower_feedforward_dimension": 4096,
                "tower_patch_values": 3 * 14 * 14, "tower_tokens": 577, "tower_tokens_handed_on": 576, "tower_position_table": 578,
                "tower_outer_norms": 2, "tower_patch_biases": 0}  # fmt: skip
    assert {name: value for name, value in found.values.items() if name.startswith("tower")} == expected
    assert found.report.unsupported == []


def test_a_tower_that_is_not_known_is_told_with_its_bound() -> None:
    section = CLIP | {"model_type": "my_vision"}
    found = huggingface.read({"model_type": "llava", "text_config": LLAMA, "vision_config": section}, "config.json")
    assert [line.key for line in found.report.unsupported] == ["vision_config"]
    assert "tower_layers" not in found.values


@pytest.mark.thorough
@pytest.mark.parametrize("name", NETWORKS)
def test_parameters_are_those_of_transformers(name: str) -> None:
    config, model = built(name)
    sizes = {key: weights.numel() for key, weights in model.named_parameters()}
    e = estimated(read(config))
    assert e["tower_parameters"] + e["tower_projector_parameters"] == sum(
        number for key, number in sizes.items() if any(part in key for part in OF_TOWER)
    )


def hearing(name: str, **section: Any) -> tuple[Any, Any]:
    """The config and the model, on the device meta, of a class that hears."""
    need("transformers", "5.23.0")
    import torch
    import transformers

    head, said = OF_SOUND[name]
    config = getattr(transformers, f"{head}Config")(
        audio_config=said | section, text_config=TEXT | {"model_type": "llama"}
    )
    config.audio_config._attn_implementation = "eager"
    with torch.device("meta"):
        return config, getattr(transformers, f"{head}ForConditionalGeneration")(config)


@pytest.mark.thorough
@pytest.mark.parametrize("name", OF_SOUND)
def test_parameters_of_an_encoder_of_sound_are_those_of_transformers(name: str) -> None:
    config, model = hearing(name)
    values = read(config)
    e = estimated(values)
    sizes = {key: weights.numel() for key, weights in model.named_parameters()}
    counted = sum(number for key, number in sizes.items() if any(part in key for part in OF_TOWER))
    assert e["tower_parameters"] + e["tower_projector_parameters"] == counted
    assert values["tower_tokens_handed_on"] == {"qwen2_audio": 750}.get(name, 375)


@pytest.mark.thorough
def test_products_of_a_clip_are_those_that_torch_counts() -> None:
    """Without the projector, which the count here does not run: 1,500 · 2 · (1,280 · 2,048) FLOPs over two, as its clip has 750 tokens."""
    import torch
    from torch.utils.flop_counter import FlopCounterMode

    config, model = hearing("qwen2_audio", encoder_layers=2)
    encoder = next(module for name, module in model.named_modules() if name.endswith("audio_tower"))
    with FlopCounterMode(display=False) as counted, torch.no_grad(), torch.device("meta"):
        encoder(torch.zeros(1, 128, 3000))
    values = read(config)
    without = {key: value for key, value in values.items() if not key.startswith("tower")}
    flops = estimated(values)["model_flops_per_accelerator"] - estimated(without)["model_flops_per_accelerator"]
    assert flops - 750 * 2 * 1280 * 2048 == pytest.approx(counted.get_total_flops(), rel=0.01)


def of_clip(torch: Any, config: Any, model: Any) -> None:
    side, inner = config.vision_config.image_size, model.model
    states = inner.vision_tower(torch.zeros(1, 3, side, side, device=model.device)).last_hidden_state
    has_class_token = config.vision_config.model_type == "clip_vision_model"
    inner.multi_modal_projector(states[:, has_class_token:])


def of_llama(torch: Any, _: Any, model: Any) -> None:
    model.multi_modal_projector(model.vision_model(torch.zeros(1, 3, 336, 336)).last_hidden_state)


def of_qwen(torch: Any, config: Any, model: Any) -> None:
    section = config.vision_config
    values = section.in_channels * section.temporal_patch_size * section.patch_size**2
    model.model.visual(torch.zeros(48 * 48, values), grid_thw=torch.tensor([[1, 48, 48]]))


def of_gemma_4(torch: Any, config: Any, model: Any) -> None:
    places = torch.cartesian_prod(torch.arange(60), torch.arange(42))[None]
    states = model.model.vision_tower(torch.zeros(1, 60 * 42, 768), pixel_position_ids=places).last_hidden_state
    model.model.embed_vision(states.reshape(-1, config.vision_config.hidden_size))


RUNS: dict[str, Callable[[Any, Any, Any], None]] = {
    **dict.fromkeys(("llava", "paligemma", "gemma3"), of_clip), "llama4": of_llama, "gemma4": of_gemma_4,
    **dict.fromkeys(("qwen2_vl", "qwen2_5_vl", "qwen3_vl"), of_qwen),
}  # fmt: skip


@pytest.mark.thorough
@pytest.mark.parametrize("name", RUNS)
def test_products_of_an_image_are_those_that_torch_counts(name: str) -> None:
    """With two layers, so that the ends of a tower weigh more, on a processor; the last of them attends to the whole image."""
    need("transformers", "5.23.0")
    import torch
    from torch.utils.flop_counter import FlopCounterMode

    config, model = built(name, **FEW_LAYERS.get(name, {"num_hidden_layers": 2}))
    model = (
        model if RUNS[name] is of_clip else model.to_empty(device="cpu")
    )  # some code of transformers cannot run on meta
    with FlopCounterMode(display=False) as counted, torch.no_grad(), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        RUNS[name](torch, config, model)
    values = read(config)
    without = {key: value for key, value in values.items() if not key.startswith("tower")}
    flops = estimated(values)["model_flops_per_accelerator"] - estimated(without)["model_flops_per_accelerator"]
    assert flops == pytest.approx(counted.get_total_flops(), rel=0.01)


@pytest.mark.parametrize("form", ["huggingface", "megatron", "torchtitan"])
def test_an_export_names_the_tower_that_it_does_not_write(form: str) -> None:
    e = of_model("LLaVA-1.5 7B")
    assert [line.key for line in TARGETS[form].fields(e).lost if line.key.startswith(("tower", "images"))] == ["tower"]
