"""Networks whose layers are not alike, typed as people type them: an answer, each kind's kernels, and the stages."""

import json
import re

import pytest

import amped
from amped.estimation.kinds_of_layers import kind_lines
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
@pytest.mark.parametrize(
    ("model", "layers"),
    [
        ("DeepSeek V4 Flash", {"attention to 512 entries of 4 tokens": 21, "attention to all entries of 128 tokens": 20,
                               "attention to window of 128": 2}),
        ("Step 3.5 Flash", {"dense": 3, "mixture": 42, "attention to window of 512": 33, "attention to all keys": 12}),
    ],
)  # fmt: skip
def test_kinds_are_shown_once_with_their_layers_and_make_the_average_layer(model: str, layers: dict[str, int]) -> None:
    e = amped.estimate(model=model, system="DGX H100")
    lines = kind_lines(e)
    assert {line.kind: line.layers for line in lines} == layers
    kinds, times = e.results.records("layer_kinds"), e.results.records("layer_times")
    average = sum(float(kind.share * time.forward) for kind, time in zip(kinds, times, strict=True))
    attentions = [line for line in lines if line.kind.startswith("attention to")]
    mean = sum(line.layers * line.forward_time for line in attentions) / e["layers"]
    assert not attentions or mean == pytest.approx(average, rel=2e-3)


@pytest.mark.thorough
def test_stages_count_each_kind() -> None:
    shown = printed("estimate", "--model", "Kimi Linear", "--system", "DGX H100", "--stages")
    counted = [(kind, int(n)) for n, kind in re.findall(r"(\d+)(dl|xl|xa)\b", shown)]
    totals = {kind: sum(n for each, n in counted if each == kind) for kind in ("dl", "xl", "xa")}
    assert totals == {"dl": 1, "xl": 19, "xa": 7}  # 27 layers, of which 7 attend and the first is dense
