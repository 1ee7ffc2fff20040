"""Splits that cannot be: refused, with what is wrong, where it was given, and the nearest that can be."""

import pytest

import amped
from amped.base.errors import MappingError
from amped.pipeline_layouts import laying_out

LATENT = {"attention_kind": "multi_latent", "key_value_latent_dimension": 512, "rotary_head_dimension": 64, "query_latent_dimension": 1536,
          "head_dimension": 192, "value_head_dimension": 128}  # fmt: skip
SUMMA = {"tensor_parallel_strategy": "2d_summa"}
SPLITS = {
    "experts that do not divide": (
        "mixtral-8x7b", {"expert_parallel_degree": 3}, "number_of_experts = 8, expert_parallel_degree = 3",
        "nearest expert_parallel_degree: 2 or 4",
    ),
    "experts over more accelerators than a stage has": (
        "mixtral-8x7b", {"expert_tensor_parallel_degree": 3}, "expert_tensor_parallel_degree = 3",
        "nearest expert_tensor_parallel_degree: 2 or 4",
    ),
    "a sequence of an odd length": (
        "default", {"context": 2047, "context_parallel_degree": 2}, "context = 2047, context_parallel_degree = 2",
        "nearest context_parallel_degree: 1",
    ),
    "a sequence that is not two blocks for each share": (
        "default", {"context": 2056, "context_parallel_degree": 8}, "context = 2056, context_parallel_degree = 8",
        "nearest context_parallel_degree: 4",
    ),
    "heads fewer than those who exchange them": (
        "llama-3-70b", {"context_parallel_kind": "all_to_all", "context_parallel_degree": 16,
                        "pipeline_parallel_degree": 1, "virtual_pipeline_stages": 1},
        "attention_heads = 64", "nearest context_parallel_degree: 8",
    ),
    "rows that do not divide the tensor degree": (
        "default", SUMMA | {"tensor_parallel_rows": 3}, "tensor_parallel_degree = 8",
        "nearest tensor_parallel_rows: 2 or 4",
    ),
    "columns that do not divide the tensor degree": (
        "default", SUMMA | {"tensor_parallel_columns": 3}, "tensor_parallel_degree = 8",
        "nearest tensor_parallel_columns: 2 or 4",
    ),
    "rows times columns that are not the tensor degree": (
        "default", SUMMA | {"tensor_parallel_rows": 4, "tensor_parallel_columns": 4}, "tensor_parallel_rows = 4",
        "nearest tensor_parallel_columns: 2",
    ),
    "a grid in one dimension": (
        "default", {"tensor_parallel_columns": 2}, "In one dimension the grid has one column",
        "nearest tensor_parallel_columns: 1",
    ),
    "panels that do not divide the width": (
        "default", SUMMA | {"tensor_parallel_columns": 2, "summa_panels": 5}, "summa_panels = 5",
        "nearest summa_panels: 4 or 8",
    ),
    "experts on a SUMMA grid": ("mixtral-8x7b", SUMMA, "the other tensor-parallel strategies have experts", "tensor_parallel_strategy: 1d or 2d_context"),
    "scores in panels without a grid of activations": (
        "default", {"grid_attention": "summa", "flash_attention": False}, "tensor_parallel_strategy 2d_summa",
        "choose another grid_attention: keys_gathered",
    ),
    "scores in panels in a fused kernel": (
        "default", SUMMA | {"tensor_parallel_columns": 2, "grid_attention": "summa", "flash_attention": True},
        "Scores in panels are written", "nearest flash_attention: 0",
    ),
    "latent vectors on a SUMMA grid": (
        "default", SUMMA | LATENT, "the other tensor-parallel strategies have multi-latent attention", "tensor_parallel_strategy: 1d",
    ),
    "latent vectors dealt out by heads": (
        "default", LATENT | {"absorbed_latent_attention": True, "context_parallel_kind": "all_to_all",
                             "context_parallel_degree": 4},
        "One latent vector serves all heads", "context_parallel_kind: ring or all_gather",
    ),
    "a grid in the closed form": (
        "default", {"tensor_parallel_strategy": "2d_context", "tensor_parallel_columns": 2, "performance_model": "amped"},
        "one dimension only", "choose another performance_model: operators",
    ),
    "SUMMA in the closed form": (
        "default", SUMMA | {"performance_model": "amped"}, "one dimension only", "performance_model: operators",
    ),
    "columns that are not two blocks of tokens": (
        "default", {"tensor_parallel_strategy": "2d_context", "tensor_parallel_columns": 8, "context": 2056,
                    "position_table": 2056},
        "an early and a late block", "",
    ),
    "an expert that its shares do not divide": (
        "mixtral-8x7b", {"expert_tensor_parallel_degree": 2, "expert_feedforward_dimension": 14335},
        "expert_feedforward_dimension = 14335", "nearest expert_tensor_parallel_degree: 1",
    ),
    "more windowed layers than layers": (
        "default", {"attention_window": 256, "number_of_windowed_layers": 97}, "number_of_windowed_layers = 97",
        "nearest number_of_windowed_layers: 96",
    ),
}  # fmt: skip


@pytest.mark.parametrize("split", SPLITS)
def test_what_cannot_be_split_is_refused_with_the_nearest_that_can(split):
    config, overrides, wrong, nearest = SPLITS[split]
    with pytest.raises(MappingError) as refused:
        amped.estimate(config, **overrides)
    told = str(refused.value)
    assert wrong in told
    assert nearest in told


@pytest.mark.parametrize(
    "split", [s for s in SPLITS if SPLITS[s][3].startswith("nearest") and "14335" not in str(SPLITS[s])]
)
def test_the_nearest_that_is_named_is_taken(split):
    config, overrides, _, nearest = SPLITS[split]
    name, _, values = nearest.removeprefix("nearest ").partition(": ")
    taken = amped.estimate(config, **overrides | {name: float(values.split(" or ")[0])})
    assert taken["step_time"] > 0


def test_thousands_of_stages_are_refused_and_not_laid_out_first(monkeypatch):
    """To balance 16,384 chunks takes minutes."""
    monkeypatch.setattr(laying_out, "balanced", lambda *_: pytest.fail("laid out"))
    with pytest.raises(MappingError, match="the_accelerators_divide_by_the_other_degrees"):
        amped.estimate("megatron-145.6B", pipeline_parallel_degree=8192, virtual_pipeline_stages=2)
