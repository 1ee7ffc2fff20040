"""Networks whose layers are not alike, typed as people type them: an answer, each kind's kernels, and the stages."""

import json
import re

import pytest

from tests.helpers.cli import printed

# One network of each kind of layers, by the words that people type.
NETWORKS = (
    "Qwen3-Next 80B", "Kimi Linear", "Nemotron 3 Nano", "Nemotron-H", "MiniMax-01", "DeepSeek V3.2", "gpt-oss 120b", "Llama 4 Maverick",
    "Gemma 3 27B", "OLMo 3 32B",
)  # fmt: skip
# The least model FLOPs utilization that is plausible, and the highest of a validated training on H100 (row v1-0001).
LEAST, MOST = 0.10, 0.556


@pytest.mark.thorough
@pytest.mark.parametrize("model", NETWORKS)
def test_a_network_of_each_kind_has_a_plausible_answer(model: str) -> None:
    answer = json.loads(printed("estimate", "--model", model, "--system", "DGX H100", "--json"))
    assert LEAST <= answer["model_flops_utilization"] <= MOST


@pytest.mark.thorough
def test_layers_show_each_kind_once_with_its_count() -> None:
    """36 of 48 layers of Qwen3-Next have a gated delta net, so that an average layer has three quarters of one."""
    shown = printed("estimate", "--model", "Qwen3-Next 80B", "--system", "DGX H100", "--layers")
    assert len(re.findall(r"^linear_scan x0\.75 +forward", shown, re.MULTILINE)) == 1
    assert len(re.findall(r"^attention_output x0\.25 +forward", shown, re.MULTILINE)) == 1


@pytest.mark.thorough
def test_stages_count_each_kind() -> None:
    shown = printed("estimate", "--model", "Kimi Linear", "--system", "DGX H100", "--stages")
    counted = [(kind, int(n)) for n, kind in re.findall(r"(\d+)(dl|xl|xa)\b", shown)]
    totals = {kind: sum(n for each, n in counted if each == kind) for kind in ("dl", "xl", "xa")}
    assert totals == {"dl": 1, "xl": 19, "xa": 7}  # 27 layers, of which 7 attend and the first is dense
