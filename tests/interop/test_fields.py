"""Rows of the table of fields: words and switches that mean one value, and fields that only some networks have."""

from typing import Any

from amped.configuring.scenario import read_scenario
from amped.configuring.values import read_value
from amped.estimation.estimation import estimated
from amped.interop import megatron
from amped.interop.fields import fields, table
from amped.interop.records import Reading
from amped.theory.language.catalogue import catalogue

FORMATS = ("megatron", "torchtitan", "deepspeed", "automodel", "simumax", "calculon", "llm_analysis")


def test_words_mean_values_that_a_config_takes() -> None:
    """A missing and an unknown word are words of their row; one that may be lost says why."""
    for form in FORMATS:
        for quantity, field in fields(form).items():
            words = [theirs for theirs, _ in field.words]
            for _, value in field.words:
                if value is not None:
                    read_value(catalogue()[quantity], value)
            assert not words or {field.missing, field.unknown} <= {None, *words}, (form, quantity)


def test_conditions_and_rules_leave_each_quantity_one_way() -> None:
    for quantity, row in table("fields")["rows"].items():
        for entry in row.values():
            ways = {"by", "words", "rule"} & (entry.keys() if isinstance(entry, dict) else set())
            assert len(ways) <= 1, quantity


def read(**arguments: Any) -> Reading:
    """A network of Megatron-LM's arguments."""
    sizes = {"num_layers": 4, "hidden_size": 64, "num_attention_heads": 4, "vocab_size": 128}
    reading = Reading(sizes | arguments)
    megatron.imported(reading, "file")
    return reading


def test_a_word_that_amped_does_not_know_is_told_and_read_as_another() -> None:
    reading = read(normalization="L2Norm", optimizer="soap", attention_backend="AttnBackend.unfused")
    assert [reading.values[name] for name in ("norm_vectors", "optimizer", "flash_attention")] == [2, "adam", False]
    assert [str(line) for line in reading.report.unsupported] == [
        "--normalization: L2Norm, read as LayerNorm",
        "--optimizer: soap, read as adam",
    ]


def test_fields_of_experts_and_of_latent_attention_say_something_only_there() -> None:
    assert {"experts_per_token", "key_value_latent_dimension"}.isdisjoint(read(num_experts=1).values)
    reading = read(num_experts=8, multi_latent_attention=True, q_lora_rank=32)
    assert [reading.values[name] for name in ("experts_per_token", "query_latent_dimension")] == [2, 32]
    # 128 that are not rotated and 64 that are, where the file does not say them
    assert (reading.values["head_dimension"], reading.values["key_value_latent_dimension"]) == (192, 512)


def test_a_value_without_a_word_is_lost_and_the_last_word_is_written() -> None:
    out = megatron.fields_of(estimated(read_scenario("minimal", {"norm_vectors": 0})))
    assert out.fields["normalization"] == "RMSNorm"
    assert "norm_vectors: 0: Megatron-LM has no norm without weights" in map(str, out.lost)
