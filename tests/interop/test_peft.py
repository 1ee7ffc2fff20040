"""Adapters of LoRA have the parameters that PEFT gives them; skipped where PEFT is not installed.

`.ci/run` installs peft 0.21.2 beside transformers 5.23.0.
"""

from pathlib import Path

import pytest

from amped.interop.exporting import TARGETS
from tests.interop.test_real_frameworks import estimate, need

pytestmark = pytest.mark.filterwarnings("ignore")
RANK = 8
# Networks whose class has one product for queries, keys and values, and those with a product for each.
JOINT = (
    "Megatron 145.6B", "Megatron 22B", "MT-NLG 530B", "Turing-NLG 17B", "Anthropic 52B", "OPT 6.7B", "OPT 175B", "BLOOM 176B", "Gopher 280B",
    "Chinchilla 70B", "GPT-J 6B", "GPT-NeoX 20B", "Pythia 12B", "MPT 30B",
)  # fmt: skip
SEPARATE = (
    "PaLM 540B", "LaMDA 137B", "Falcon 40B", "Falcon 180B", "LLaMA 65B", "Llama 2 70B", "Llama 3 8B", "Llama 3.1 405B", "Llama 3.2 1B",
    "Mistral 7B", "Mistral NeMo 12B", "Qwen2.5 7B", "Qwen2.5 72B", "Qwen3 32B", "Gemma 2B", "Gemma 2 9B", "Gemma 3 27B", "Phi-3 mini",
    "gpt-oss-120b", "Nemotron-4 340B",
)  # fmt: skip


def trained_by_peft(name: str, folder: Path) -> int:
    """The parameters that PEFT trains with adapters beside all linear layers, without weights in memory."""
    import torch
    from peft import LoraConfig, get_peft_model
    from transformers import AutoConfig, AutoModelForCausalLM

    (folder / "config.json").write_text(TARGETS["huggingface"].write(estimate("minimal", model=name)), "utf-8")
    with torch.device("meta"):
        model = AutoModelForCausalLM.from_config(AutoConfig.from_pretrained(folder))
        adapted = get_peft_model(model, LoraConfig(r=RANK, target_modules="all-linear", task_type="CAUSAL_LM"))
    return sum(p.numel() for p in adapted.parameters() if p.requires_grad)


@pytest.mark.thorough
@pytest.mark.parametrize("name", [*JOINT, *SEPARATE])
def test_adapters_have_as_many_parameters_as_those_of_peft(name: str, tmp_path: Path) -> None:
    need("transformers", "5.23.0")
    pytest.importorskip("peft", reason="the parameters are compared with those of PEFT")
    e = estimate("minimal", model=name, adapters="lora", adapter_rank=RANK, joint_adapters=name in JOINT)
    assert e["trained_parameters"] == trained_by_peft(name, tmp_path)
