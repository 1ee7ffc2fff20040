"""DualPipe, as a person types it: DualPipeV on half the stages with twice the replicas; and DeepSeek's own training."""

import json
from importlib.resources import files

import pytest

import amped
from amped.base.errors import ConfigError
from amped.configuring.dualpipe import FOLDED, TOLD, folded
from amped.configuring.scenario import asked_again

DAY = 86400
# arXiv 2412.19437, sections 3.1 and 4.2: 16 stages, 64 shares of experts, ZeRO 1, 15,360 sequences; nothing is recomputed in full.
AUTHORS: dict[str, object] = {
    "model": "DeepSeek V3", "accelerator": "H800 SXM", "software": "DeepSeek HAI-LLM", "number_of_accelerators": 2048,
    "tensor_parallel_degree": 1, "expert_parallel_degree": 64, "microbatch_size": 1, "batch_size": 15360, "context": 4096,
    "matrix_precision": "fp8", "activation_recomputation": "none",
}  # fmt: skip


def test_two_ranks_with_the_same_stages_are_replicas_of_one_stage() -> None:
    asked = {"pipeline_schedule": "DualPipe", "pp": 16, "data_parallel_degree": 128}
    assert folded(asked) == {"pipeline_schedule": "dualpipe_v", "pp": 8, "data_parallel_degree": 256, FOLDED: True}
    assert folded({"pipeline_schedule": "1f1b", "pp": 16}) == {"pipeline_schedule": "1f1b", "pp": 16}


def test_an_odd_number_of_stages_has_no_middle() -> None:
    with pytest.raises(ConfigError, match="5 stages have no middle"):
        folded({"pipeline_schedule": "dualpipe", "pipeline_parallel_degree": 5})


def test_each_number_of_a_list_is_folded() -> None:
    asked = {"pipeline_schedule": "dualpipe", "pipeline_parallel_degree": [8, 16]}
    assert folded(asked)["pipeline_parallel_degree"] == [4, 8]


# A config with all of its mapping: 8 stages of DualPipe are 4 of DualPipeV.
WRITTEN = {"pipeline_parallel_degree": 8, "data_parallel_degree": 16, "microbatch_size": 1}


def test_a_config_may_have_dualpipe() -> None:
    changes = {**WRITTEN, "pipeline_schedule": "dualpipe"}
    raw = json.loads((files("amped.configs") / "default.json").read_text())
    raw["mapping_parameters"]["parameters"] |= {name: {"value": value} for name, value in changes.items()}
    e, typed = amped.estimate(raw), amped.estimate("default", **changes)
    halves = {"pipeline_schedule": "dualpipe_v", "pipeline_parallel_degree": 4, "data_parallel_degree": 32}
    half = amped.estimate("default", **{**WRITTEN, **halves})
    assert e["pipeline_parallel_degree"] == 4
    assert e["step_time"] == typed["step_time"] == half["step_time"]
    assert TOLD in e.scenario.sources.notices


def test_a_change_to_dualpipe_halves_the_stages_that_are_there() -> None:
    """What `amped whatif` does: the stages stand in the first question, and the schedule in the second one."""
    before = amped.estimate("default", **WRITTEN).scenario.question
    after = asked_again(before, {"pipeline_schedule": "dualpipe"})
    once_more = asked_again(after.question, {"pipeline_schedule": "dualpipe"})
    for scenario in (after, once_more):
        assert scenario.sources.given["pipeline_parallel_degree"] == 4
        assert scenario.sources.choices["pipeline_schedule"] == "dualpipe_v"


def test_too_few_microbatches_are_not_blamed_on_the_layers() -> None:
    with pytest.raises(amped.AmpedError, match="dualpipe_needs_microbatches") as caught:
        amped.estimate(
            model="DeepSeek V3", system="DGX H100", gpus=512, tp=1, pp=16, ep=32, pipeline_schedule="dualpipe", gbs=512
        )
    assert "does not divide" not in str(caught.value)


@pytest.mark.thorough
def test_deepseek_s_own_training_takes_the_days_that_it_took_and_fits() -> None:
    """Their report says 2.664 million hours of 2,048 accelerators: 54.2 days (arXiv 2412.19437, table 1)."""
    e = amped.estimate(**AUTHORS, pipeline_parallel_degree=16, pipeline_schedule="dualpipe")
    half = amped.estimate(**AUTHORS, pipeline_parallel_degree=8, pipeline_schedule="dualpipe_v")
    assert e["step_time"] == half["step_time"]
    assert (e["pipeline_parallel_degree"], e["data_parallel_degree"]) == (8, 256)
    assert 47 <= e["training_time"] / DAY <= 62
    assert e["fits_in_memory"]


# What the authors' question is without their layout.
OPEN = {
    name: value
    for name, value in AUTHORS.items()
    if name in ("model", "accelerator", "number_of_accelerators", "batch_size", "context", "matrix_precision")
}


@pytest.mark.thorough
@pytest.mark.parametrize("manner", ["plain", "tuned"])
def test_a_free_choice_is_no_slower(manner: str) -> None:
    """All degrees, the micro-batch, ZeRO and recomputation are open; the schedule is the software's own."""
    authors = amped.estimate(**AUTHORS, pipeline_parallel_degree=16, pipeline_schedule="dualpipe")
    chosen = amped.estimate(**OPEN, software="DeepSeek HAI-LLM", manner=manner)
    assert chosen["fits_in_memory"]
    assert chosen["training_time"] <= authors["training_time"]


@pytest.mark.thorough
def test_a_free_choice_with_other_software_is_as_fast_as_the_authors_were() -> None:
    """Its switches are chosen, and it has one-forward-one-backward; the authors' layout does not fit with this software."""
    authors = amped.estimate(**AUTHORS, pipeline_parallel_degree=16, pipeline_schedule="dualpipe")
    chosen = amped.estimate(**OPEN, software="Megatron-Bridge", manner="tuned")
    assert chosen["fits_in_memory"]
    assert chosen["training_time"] <= authors["training_time"]


@pytest.mark.thorough
def test_a_search_takes_uneven_stages_of_a_v() -> None:
    """A layout in letters has two chunks a stage, though the schedule has one virtual stage."""
    asked = {
        **AUTHORS,
        "number_of_accelerators": 512,
        "batch_size": 3840,
        "pipeline_parallel_degree": 4,
        "zero_stage": 1,
    }
    found = amped.explore(**asked, pipeline_schedule="dualpipe_v", top=1)
    assert found.best is not None
