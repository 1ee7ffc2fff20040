"""What a source leaves open: the fastest choice that fits, and how it is told."""

import pytest

from amped.estimation.estimation import estimated
from amped.validation.measurements import read_measurements
from tests.helpers.validation import RUN, table

# What the chooser would take otherwise.
SAID = {
    "software": "all fused", "matrix_precision": "bf16", "sequence_parallel": False, "dropout": 0, "virtual_pipeline_stages": 1,
    "context_parallel_degree": 1, "expert_parallel_degree": 1, "expert_tensor_parallel_degree": 1,
}  # fmt: skip
WIDE = RUN | {"layers": 80, "dimensionality": 8192, "attention_heads": 64, "feedforward_dimension": 28672, "gated_mlp": True,
              "number_of_accelerators": 64, "data_parallel_degree": "", "tensor_parallel_degree": 8,
              "pipeline_parallel_degree": 4, "zero_stage": 1, "flash_attention": True, **SAID}  # fmt: skip


@pytest.fixture
def read(tmp_path):
    return lambda row: read_measurements(table(tmp_path, row))[0]


def estimate(m, **changed):
    return estimated(type(m)(m.row, {**m.settings, **changed}).scenario())


def test_the_micro_batch_is_the_fastest_that_fits(read):
    m = read(RUN | {"microbatch_size": "", "open": "microbatch_size", "flash_attention": True})
    chosen = m.settings["microbatch_size"]
    assert f"microbatch_size = {chosen} (not stated; the fastest that fits)" in map(str, m.assumed)
    others = {size: estimate(m, microbatch_size=size) for size in (1, 2, 4)}
    fitting = {size: e["step_time"] for size, e in others.items() if e["fits_in_memory"]}
    assert fitting[chosen] == min(fitting.values())


def test_the_default_is_taken_where_the_row_says_so(read):
    m = read(RUN | {"microbatch_size": "", "open": "microbatch_size", "assume": "default"})
    assert "microbatch_size" not in m.settings


def test_sequences_are_split_beside_tensor_parallelism(read):
    m = read(WIDE | {"microbatch_size": "", "sequence_parallel": "", "open": "sequence_parallel; microbatch_size"})
    assert m.settings["sequence_parallel"] is True


def test_as_few_layers_are_recomputed_as_will_do(read):
    m = read(
        WIDE
        | {"microbatch_size": 4, "open": "activation_recomputation; number_of_recomputed_layers", "batch_size": 128}
    )
    some = m.settings["number_of_recomputed_layers"]
    assert m.settings["activation_recomputation"] == "block"
    assert 0 < some < 80 / 4
    assert estimate(m)["fits_in_memory"]
    assert not estimate(m, number_of_recomputed_layers=some - 1)["fits_in_memory"]


def test_as_few_activations_are_offloaded_as_will_do(read):
    m = read(WIDE | {"microbatch_size": 2, "open": "activation_recomputation; activation_offload"})
    share, layer = m.settings["activation_offload"], 4 / 80
    assert m.settings["activation_recomputation"] == "none"
    assert 0 < share < 1
    assert estimate(m)["fits_in_memory"]
    assert not estimate(m, activation_offload=share - layer)["fits_in_memory"]


def test_what_the_chooser_would_search_stays_as_the_row_has_it(read):
    m = read(WIDE | {"microbatch_size": 2, "open": "activation_recomputation"})
    assert set(m.settings) - set(m.row.settings) == {"activation_recomputation"}
    assert (estimate(m)["zero_stage"], estimate(m)["microbatch_size"]) == (1, 2)


def test_nothing_is_recomputed_where_all_fits(read):
    m = read(WIDE | {"microbatch_size": 1, "open": "activation_recomputation"})
    assert estimate(m).choices["activation_recomputation"] == "none"


def test_what_ran_fits_whatever_is_estimated(read):
    huge = WIDE | {"layers": 800, "microbatch_size": 8, "batch_size": 128, "open": "activation_recomputation"}
    assert "none is estimated to fit" in str(
        read(
            huge
            | {"activation_recomputation": "none", "virtual_pipeline_stages": "", "open": "virtual_pipeline_stages"}
        ).assumed
    )
