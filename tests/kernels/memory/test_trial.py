"""`amped memory convert`: a model of transformers before and after its conversion, and Tempo's own names."""

import json

import pytest

torch = pytest.importorskip("torch", reason="torch is not installed: pip install 'amped[torch]'")
pytest.importorskip("transformers", reason="needs transformers, which .ci/run installs")
from amped.base.errors import ConfigError  # noqa: E402
from amped.kernels.memory import tempo, trial  # noqa: E402
from tests.helpers.cli import printed, refused  # noqa: E402

SMALL = ["--layers", 2, "--batch", 1, "--seq", 8, "--device", "cpu", "-s", "vocab_size=64", "-s", "hidden_size=32",
         "-s", "intermediate_size=64", "-s", "num_attention_heads=2"]  # fmt: skip


@pytest.fixture(autouse=True)
def _quick(monkeypatch):
    monkeypatch.setattr(trial, "_CAP", 0.01)


def test_a_model_keeps_less_and_its_gradients_stay(tmp_path):
    config = tmp_path / "config.json"
    config.write_text(json.dumps({"model_type": "bert", "num_hidden_layers": 12}))
    found = json.loads(printed("memory", "convert", config, *SMALL, "--json"))
    assert found["after_bytes"] < 0.8 * found["before_bytes"]
    assert found["gradient_difference"] < 1e-5
    assert {kind["count"] for kind in found["kinds"] if not kind["refused"]} == {2}
    taken = sum(kind["saved_bytes"] for kind in found["kinds"] if not kind["refused"])
    assert taken == found["before_bytes"] - found["after_bytes"]


def test_the_table_says_what_was_converted_and_why_the_rest_was_not():
    text = printed("memory", "convert", "bert", *SMALL, "--technique", "in_place_norm", "--target", "1 kB")
    assert "input_ids 1 x 8" in text
    assert "The target of 1 kB is NOT met." in text
    assert "encoder.layer.*.output.LayerNorm" in text
    assert "embeddings.LayerNorm (1): not in_place_norm: saves nothing" in " ".join(text.split())


@pytest.mark.parametrize(("words", "told"), [
    (["brt"], "did you mean 'bart', 'bert'"), (["bert", "-s", "hidden_size=33"], "builds no model 'bert'"),
    (["bert", "-s", "hidden_size"], "has no value"), (["no.json"], "give a config.json"),
    (["bert", *SMALL, "--technique", "norms"], "the technique 'norms' is not known"),
])  # fmt: skip
def test_what_cannot_be_built_is_told(words, told):
    code, text = refused("memory", "convert", *words)
    assert code == 2
    assert told in text


def test_tempos_own_names_compute_what_its_modules_do():
    scores, values = torch.randn(1, 2, 4, 4), torch.randn(1, 2, 4, 8)
    assert torch.allclose(tempo.Combined(-1, 0.0)(scores, values), torch.softmax(scores, -1) @ values, atol=1e-6)
    assert torch.allclose(tempo.InplaceGelu()(values), torch.nn.functional.gelu(values))
    assert tempo.InplaceLayerNorm(8)(values).shape == values.shape
    with pytest.raises(ConfigError, match="dim=-1"):
        tempo.Combined(1, 0.1)
