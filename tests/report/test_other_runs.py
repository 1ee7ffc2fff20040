"""The lines RECIPE and FIRST RUN of the screen."""

from amped.configuring.scenario import read_scenario
from amped.estimation.estimation import estimated
from amped.report.screen import other_runs_in_words

ASKED = {"model": "Qwen3 235B-A22B", "system": "DGX H100", "software": "Megatron-Bridge 26.04", "number_of_accelerators": 256,
         "expert_parallel_degree": 8, "tensor_parallel_degree": 2, "pipeline_parallel_degree": 16, "data_parallel_degree": 8,
         "precision": "bf16", "zero_stage": 1}  # fmt: skip


def test_a_recipe_that_loses_with_this_mapping_is_called_slower() -> None:
    e = estimated(read_scenario("minimal", ASKED))
    lines = dict(other_runs_in_words(e))
    assert "slower with this mapping: expert_imbalance_factor=1, overlap_expert_communication=true" in lines["RECIPE"]
    assert "slower" not in lines["FIRST RUN"]
