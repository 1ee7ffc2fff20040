"""The family of layouts that are compared: complete where it is small, and a better machine never gets a slower one of it."""

from itertools import product

import numpy as np
import pytest

import amped
from amped.estimation.layout_family import layout_family

HALF = {"DeepSeek V3": {"expert_parallel_degree": 8, "layers": 61}, "Llama 3 70B": {"layers": 79}}


@pytest.mark.parametrize(
    ("layers", "stages", "chunks"), [(61, 8, 4), (126, 16, 2), (7, 4, 2), (3, 2, 4), (5, 1, 2), (80, 2, 2)]
)
def test_each_layout_has_all_layers_and_is_there_once(layers, stages, chunks):
    family = layout_family(layers, tuple(chunk % stages for chunk in range(stages * chunks)))
    assert (family.sum(axis=1) == layers).all()
    assert (family >= 0).all()
    assert len(np.unique(family, axis=0)) == len(family) > 1


def test_a_small_family_has_every_layout():
    every = [counts for counts in product(range(7), repeat=4) if sum(counts) == 6]
    assert sorted(map(tuple, layout_family(6, (0, 1, 0, 1)).tolist())) == sorted(every)


def test_a_large_family_has_heavy_ends_and_rows_of_chunks():
    family = {tuple(row) for row in layout_family(61, tuple(chunk % 8 for chunk in range(32))).tolist()}
    assert {(3, *[2] * 27, *[1] * 4), (1, *[2] * 30, 0), (2, *[2] * 29, 1, 0)} <= family


CHANGES = {"bf16_peak_flop_rate": 2, "memory_bandwidth": 4, "inter_accelerator_bandwidth": 2, "bandwidth_per_network_card": 8, "vocabulary_size": 0.25,
           "kernel_overhead_time": 0.5, "context": 0.5}  # fmt: skip


@pytest.mark.parametrize("model", HALF)
@pytest.mark.parametrize("chunks", [2, 3])
def test_a_better_machine_and_less_work_are_never_slower_with_layouts_found_anew(model, chunks):
    asked = {"model": model, "system": "DGX H100", "number_of_accelerators": 64, "pipeline_parallel_degree": 4, "virtual_pipeline_stages": chunks,
             "tensor_parallel_degree": 2, "batch_size": 128, "memory_capacity": "1 TB", **HALF[model]}  # fmt: skip
    base = amped.estimate(**asked)
    for name, times in CHANGES.items():
        assert amped.estimate(**asked | {name: base[name] * times})["step_time"] <= base["step_time"] * (1 + 1e-9), name
