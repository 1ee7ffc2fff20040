"""Layouts of which a search for the layout of a pipeline begins: each has all layers, and none depends on the machine."""

import numpy as np
import pytest

import amped
from amped.pipeline_layouts.starts import in_runs
from tests.campaigns.runs import asked


@pytest.mark.parametrize(("layers", "chunks"), [(61, 32), (126, 32), (7, 8), (3, 8), (5, 3), (100_000, 7)])
def test_each_layout_has_all_layers_and_is_there_once(layers, chunks):
    found = in_runs(layers, chunks)
    assert (found.sum(axis=1) == layers).all()
    assert (found >= 0).all()
    assert len(np.unique(found, axis=0)) == len(found) > 1


@pytest.mark.parametrize("chunks", [1, 2])
def test_without_inner_chunks_there_are_none(chunks):
    assert in_runs(61, chunks).shape == (0, chunks)


def test_there_are_heavy_ends_light_ends_and_up_to_three_numbers_on_the_way():
    found = {tuple(row) for row in in_runs(61, 32).tolist()}
    assert {(3, *[2] * 27, *[1] * 4), (1, *[2] * 30, 0), (0, *[1] * 9, *[3] * 10, *[2] * 11, 0)} <= found


HALF = {"DeepSeek V3": {"expert_parallel_degree": 8}, "Llama 3 70B": {"layers": 79}}
CHANGES = {"bf16_peak_flop_rate": 2, "memory_bandwidth": 4, "inter_accelerator_bandwidth": 2, "bandwidth_per_network_card": 8, "vocabulary_size": 0.25,
           "kernel_overhead_time": 0.5, "context": 0.5}  # fmt: skip


@pytest.mark.thorough
@pytest.mark.parametrize("model", HALF)
@pytest.mark.parametrize("chunks", [2, 3])
def test_a_better_machine_and_less_work_are_never_slower_with_layouts_found_anew(model, chunks):
    asked = {"model": model, "system": "DGX H100", "number_of_accelerators": 64, "pipeline_parallel_degree": 4, "virtual_pipeline_stages": chunks,
             "tensor_parallel_degree": 2, "batch_size": 128, "memory_capacity": "1 TB", **HALF[model]}  # fmt: skip
    base = amped.estimate(**asked)
    for name, times in CHANGES.items():
        assert amped.estimate(**asked | {name: base[name] * times})["step_time"] <= base["step_time"] * (1 + 1e-9), name


@pytest.mark.thorough
def test_the_search_goes_on_from_layouts_that_are_not_the_best_so_far():
    """From the best layout alone no move makes this step shorter, and a slower machine's layout was 0.7 % better."""
    given = {"model": "gpt-oss-20b", "system": "DGX H100", "tensor_parallel_degree": 1, "data_parallel_degree": 1,
             "pipeline_parallel_degree": 8, "virtual_pipeline_stages": 2, "context_parallel_degree": 4,
             "expert_parallel_degree": 4, "microbatch_size": 2, "batch_size": 64, "tokens_to_train": "1 T",
             "flash_attention": True, "overlap_expert_communication": False, "host_time_per_step": 0.0,
             "network_kind": "optical_circuit_switched", "bandwidth_per_network_card": 2e9}  # fmt: skip
    fast = asked(given)
    slow = asked(given | {"inter_accelerator_latency": 8 * fast["inter_accelerator_latency"]})
    held = asked(given | {"pipeline_layout": slow.choices["pipeline_layout"]})
    assert fast["step_time"] <= min(slow["step_time"], held["step_time"])
