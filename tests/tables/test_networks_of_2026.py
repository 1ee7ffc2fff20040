"""Networks that people train now: names find them, and their rows say what their published configs say."""

import pytest

from amped.interop.huggingface import read
from amped.tables.row_names import mixture_of_size
from amped.tables.table_files import MODELS
from amped.tables.tables import Tables
from tests.helpers.interop import UNREAD_WEIGHTS
from tests.helpers.published_networks import NULLS, made_class, published

# What people type, and the row that it means.
TYPED = {
    "GLM-4.5": ["glm 4.5", "zai-org/GLM-4.5", "zai-org/GLM-4.5-Base", "GLM-4.5-FP8"],
    "GLM-4.6": ["GLM 4.6", "glm-4.6", "zai-org/GLM-4.6", "GLM 4.7"],
    "GLM-4.5 Air": ["glm-4.5-air", "GLM 4.5 Air", "zai-org/GLM-4.5-Air-Base"],
    "GLM-4.7 Flash": ["zai-org/GLM-4.7-Flash"],
    "MiniMax M2": ["minimax m2", "MiniMaxAI/MiniMax-M2", "MiniMax-M2.5"],
    "Kimi K2": ["kimi k2", "moonshotai/Kimi-K2-Base", "moonshotai/Kimi-K2-Instruct-0905"],
    "Kimi K2.5": ["kimi-k2.5", "moonshotai/Kimi-K2.5"],
    "Mistral Large 3": ["mistral large 3", "mistralai/Mistral-Large-3-675B-Base-2512"],
    "Mistral Small 3": ["mistralai/Mistral-Small-24B-Base-2501"],
    "Mistral Small 4": ["mistralai/Mistral-Small-4-119B-2603"],
    "Ministral 3 8B": ["mistralai/Ministral-3-8B-Base-2512", "ministral 3 8b"],
    "OLMo 3 7B": ["olmo3 7b", "allenai/Olmo-3-1025-7B"],
    "OLMo 3 32B": ["olmo3 32b", "OLMo-3-32B", "allenai/Olmo-3-1125-32B"],
    "OLMo 2 32B": ["allenai/OLMo-2-0325-32B", "olmo2 32b"],
    "OLMoE 1B-7B": ["allenai/OLMoE-1B-7B-0924", "olmoe 1b 7b"],
    "Hunyuan A13B": ["hunyuan-a13b", "tencent/Hunyuan-A13B-Instruct"],
    "Hunyuan Large": ["hunyuan large", "tencent/Tencent-Hunyuan-Large"],
    "Ling 1T": ["ling 1t", "inclusionAI/Ling-1T", "inclusionAI/Ring-1T"],
    "Ling flash 2.0": ["ling-flash", "inclusionAI/Ling-flash-2.0"],
    "Ling mini 2.0": ["ling mini", "inclusionAI/Ring-mini-2.0"],
    "Moonlight 16B-A3B": ["moonlight", "moonshotai/Moonlight-16B-A3B"],
    "SmolLM3 3B": ["smollm3", "HuggingFaceTB/SmolLM3-3B-Base"],
    "LongCat Flash": ["longcat-flash", "meituan-longcat/LongCat-Flash-Chat"],
    "ERNIE 4.5 300B-A47B": ["ernie 4.5", "ERNIE 4.5 300B", "baidu/ERNIE-4.5-300B-A47B-PT"],
    "Seed-OSS 36B": ["seed-oss", "ByteDance-Seed/Seed-OSS-36B-Instruct"],
    "Granite 4.0 micro": ["ibm-granite/granite-4.0-micro"],
    "EXAONE 4.0 32B": ["exaone 4", "LGAI-EXAONE/EXAONE-4.0-32B"],
    "Apertus 8B": ["swiss-ai/Apertus-8B-2509"],
    "AFM 4.5B": ["arcee-ai/AFM-4.5B-Base"],
    "dots.llm1": ["dots1", "rednote-hilab/dots.llm1.base"],
    "Qwen3 Coder 480B-A35B": ["Qwen/Qwen3-Coder-480B-A35B-Instruct"],
    "Llama 4 Scout": ["llama4 scout", "meta-llama/Llama-4-Scout-17B-16E"],
    "Gemma 3 27B": ["gemma3 27b", "google/gemma-3-27b-pt"],
    "Gemma 4 31B": ["gemma 4", "google/gemma-4-31B-it"],
    "Gemma 4 26B-A4B": ["gemma 4 26b", "google/gemma-4-26B-A4B"],
    "Phi-4": ["phi 4", "microsoft/phi-4"],
    "DeepSeek V3.2": ["deepseek v3.2", "deepseek-ai/DeepSeek-V3.2-Exp", "DeepSeek-V3.2"],
    "Step 3.5 Flash": ["step 3.5", "stepfun-ai/Step-3.5-Flash", "stepfun-ai/Step-3.7-Flash"],
    "GLM-5": ["glm 5", "zai-org/GLM-5", "zai-org/GLM-5-FP8"],
    "Qwen3-Next 80B-A3B": ["Qwen3-Next 80B", "qwen3 next", "Qwen/Qwen3-Next-80B-A3B-Instruct"],
    "Qwen3.5 35B-A3B": ["qwen3.5 35b", "Qwen/Qwen3.5-35B-A3B", "Qwen/Qwen3.6-35B-A3B"],
    "Qwen3.5 397B-A17B": ["qwen3.5", "Qwen/Qwen3.5-397B-A17B"],
    "Kimi Linear 48B-A3B": ["kimi linear", "moonshotai/Kimi-Linear-48B-A3B-Base"],
    "Nemotron 3 Nano 30B-A3B": ["nemotron 3 nano", "nvidia/NVIDIA-Nemotron-3-Nano-30B-A3B-BF16"],
    "Nemotron 3 Super 120B-A12B": ["nemotron 3 super", "nvidia/NVIDIA-Nemotron-3-Super-120B-A12B-BF16"],
    "Nemotron 3 Ultra 550B-A55B": ["nemotron 3 ultra", "nvidia/NVIDIA-Nemotron-3-Ultra-550B-A55B-BF16"],
    "Nemotron-H 8B": ["nemotron-h", "nvidia/Nemotron-H-8B-Base-8K"],
    "MiniMax-Text-01": ["MiniMaxAI/MiniMax-Text-01", "minimax-01", "MiniMax-M1"],
    "Qwen3 235B-A22B": ["Qwen3 235B", "qwen3-235b", "Qwen/Qwen3-235B-A22B"],
    "Qwen3 30B-A3B": ["Qwen 3 30B", "Qwen/Qwen3-30B-A3B-Instruct-2507"],
    "gpt-oss-120b": ["gpt oss 120b", "openai/gpt-oss-120b"],
}


@pytest.mark.parametrize("row", TYPED)
def test_what_people_type_finds_the_row(row: str) -> None:
    tables = Tables()
    assert {typed: tables.row(MODELS, typed).name for typed in TYPED[row]} == dict.fromkeys(TYPED[row], row)


def test_a_size_that_several_mixtures_have_is_asked_for() -> None:
    names = [("Twin 9B-A1B", ["Twin 9B-A1B"]), ("Twin 9B-A2B", ["Twin 9B-A2B"])]
    assert (mixture_of_size("twin 9b", names[:1]), mixture_of_size("twin 9b", names)) == ("Twin 9B-A1B", None)


# What a config.json does not say, or says as the longest only; a row counts the shared experts together.
OTHERWISE = {
    "context", "dropout", "number_of_shared_experts", "mixture_layer_pattern", "linear_layer_pattern", "attention_kind",
}  # fmt: skip


def test_rows_say_what_published_configs_say() -> None:
    tables, unlike = Tables(), {}
    assert len(published()) >= 44
    for row, config in published().items():
        found, columns = read(config, row), tables.row(MODELS, row).columns
        assert found.report.unsupported == [], row
        said = {name: value for name, value in found.values.items() if name not in OTHERWISE and value}
        differing = {name: (value, columns.get(name)) for name, value in said.items() if columns.get(name) != value}
        unlike |= {row: differing} if differing else {}
    assert unlike == {}


@pytest.mark.thorough
def test_the_classes_of_transformers_have_as_many_parameters() -> None:
    """The model of each published config on torch's device meta. transformers has no class of Ling's, and no head of Mistral 4's."""
    torch = pytest.importorskip("torch", reason="needs the extra torch")
    pytest.importorskip("transformers", reason="needs transformers 5.23.0")
    tables, counts = Tables(), {}
    for row, config in published().items():
        kind = config["model_type"]
        if kind in ("bailing_moe_v2", "mistral4"):
            continue
        with torch.device("meta"):
            parameters = made_class(config | NULLS.get(row, {})).num_parameters()
        counts[row] = parameters - UNREAD_WEIGHTS.get(kind, 0), tables.row(MODELS, row).columns["parameters_computed"]
    assert len(counts) >= 40
    assert {row: pair for row, pair in counts.items() if pair[0] != pair[1]} == {}
