"""The sequences of a batch are on the screen, and long ones are never taken in silence."""

import json

import pytest

from tests.helpers.cli import printed, refused


def batch(*asked):
    """The line of the batch, and the whole answer in one line."""
    told = printed("estimate", *asked)
    (line,) = [line for line in told.splitlines() if line.startswith("BATCH")]
    return line.removeprefix("BATCH").strip(), " ".join(told.split())


@pytest.mark.parametrize(
    ("more", "line"),
    [
        ((), "512 x 8,192 tokens (4.2 M), assumed"),
        (("--gbs", 128), "128 x 8,192 tokens (1.0 M), length assumed"),
        (("--seq", 4096), "1,024 x 4,096 tokens (4.2 M), batch assumed"),
        (("--gbs", 128, "--seq", 4096), "128 x 4,096 tokens (524 k), "),
    ],
)
def test_the_batch_has_its_tokens_and_says_what_was_assumed(more, line):
    assert batch("--model", "Llama 3 8B", "--gpus", 64, *more)[0] == line.removesuffix(", ")


def test_a_config_assumes_nothing_of_its_batch():
    assert "assumed" not in batch("default")[0]


@pytest.mark.thorough
def test_the_longest_sequence_of_a_row_is_told_and_not_taken():
    line, told = batch("--model", "Mixtral 8x22B", "--gpus", 128)
    assert line == "512 x 8,192 tokens (4.2 M), assumed"
    assert "note: sequences of 8,192 tokens are taken; Mixtral 8x22B takes up to 65,536: --seq 65536" in told
    line, told = batch("--model", "Mixtral 8x22B", "--gpus", 128, "--seq", 65536)
    assert line.endswith("x 65,536 tokens (4.2 M), batch assumed")
    assert "sequences of" not in told


def test_what_a_config_json_says_of_its_longest_sequence_is_told(tmp_path):
    raw = {"architectures": ["LlamaForCausalLM"], "model_type": "llama", "hidden_size": 2048, "num_hidden_layers": 16,
           "num_attention_heads": 16, "intermediate_size": 5504, "vocab_size": 32000, "max_position_embeddings": 131072}  # fmt: skip
    path = tmp_path / "config.json"
    path.write_text(json.dumps(raw), "utf-8")
    line, told = batch("--model", path, "--gpus", 8)
    assert line == "1,024 x 4,096 tokens (4.2 M), assumed"
    assert "4,096 tokens of a sequence in training; config.json says only the longest, 131,072" in told


def test_a_million_tokens_a_sequence_are_not_one_sequence_for_each_accelerator():
    """Long sequences are split, so that a step needs fewer of them: 16 million tokens, as Llama 3 had in a step."""
    assert batch("--model", "Llama 3 8B", "--gpus", 256, "--context", "1M")[0].startswith(
        "16 x 1,000,000 tokens (16 M)"
    )


def test_images_are_counted_as_images():
    line, told = batch("--model", "ViT-L/16", "--accelerator", "RTX 4090", "--gpus", 8)
    assert line == "16,384 images x 197 tokens (3.2 M), batch assumed"
    assert "images/s an accelerator" in told


def test_the_long_form_has_the_tokens_too():
    assert "batch 512 x 8,192 tokens (4.2 M), assumed, micro-batch 1" in " ".join(
        printed("estimate", "--model", "Llama 3 8B", "--gpus", 64, "--full").split()
    )


def test_bytes_without_a_unit_are_refused_in_a_wish():
    code, told = refused("explore", "--model", "Llama 3 8B", "--gpus", 8, "--where", "memory < 70")
    assert code == 2
    assert "70 without a unit is 70 byte" in told
    assert "memory_per_accelerator_bytes < 70 GB" in told


def test_a_memory_that_is_too_small_is_refused():
    code, told = refused("estimate", "--model", "Llama 3 8B", "--gpus", 8, "--set", "memory_capacity=80")
    assert code == 2
    assert 'write the unit: memory_capacity="80 GB"' in told
