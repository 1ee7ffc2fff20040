"""What is taken for a training of adapters where nobody says its batch and length, and how the screen tells it."""

from tests.helpers.cli import printed


def test_a_training_of_adapters_has_a_small_batch_and_one_epoch_and_says_so() -> None:
    told = printed("estimate", "--model", "Llama 3 8B", "--system", "DGX H100", "--gpus", "8", "--set", "adapters=lora")
    assert "BATCH      8 x 8,192 tokens (66 k), assumed" in told
    assert "ADAPTERS   lora, rank 16: " in told
    assert "32 million tokens (assumed)" in told


def test_what_is_given_stays() -> None:
    words = ("--set", "adapters=dora", "--gbs", "32", "--tokens", "100M")
    told = printed("estimate", "--model", "Llama 3 8B", "--system", "DGX H100", "--gpus", "8", *words)
    assert "BATCH      32 x 8,192 tokens" in told
    assert "TRAINING   100 million tokens:" in told
    assert "ADAPTERS   dora, rank 16: " in told
