"""A pipeline that is emptied several times a step: each time it has the whole bubble, and holds no more."""

import pytest

import amped
from amped.base.errors import MappingError
from amped.configuring.scenario import read_scenario
from amped.estimation.estimation import estimated
from amped.estimation.execution import executed_step

SCHEDULES = [{}, {"virtual_pipeline_stages": 2}, {"pipeline_schedule": "gpipe"}, {"pipeline_schedule": "zero_bubble_h1"},
             {"pipeline_schedule": "zero_bubble_v"}, {"pipeline_schedule": "dualpipe_v"}, {"pipeline_layout": "11,12*6,13"}, {"performance_model": "amped"}]  # fmt: skip


@pytest.mark.parametrize("more", SCHEDULES)
def test_each_flush_is_a_step_of_as_many_micro_batches(more):
    whole, half = (amped.estimate("default", batch_size=batch, **more) for batch in (1536, 768))
    twice = amped.estimate("default", batch_size=1536, pipeline_flushes_per_step=2, **more)
    assert twice["pipeline_bubble_time"] == pytest.approx(2 * half["pipeline_bubble_time"], rel=1e-12)
    assert twice["activation_bytes"] == half["activation_bytes"] <= whole["activation_bytes"]
    assert twice["step_time"] > whole["step_time"]


@pytest.mark.parametrize("more", SCHEDULES[:-1])
def test_the_executed_step_is_emptied_as_often(more):
    e = estimated(read_scenario("default", {"pipeline_flushes_per_step": 4, **more}))
    assert executed_step(e).deviation == pytest.approx(0, abs=0.01)


def test_flushes_that_do_not_divide_the_micro_batches_are_refused():
    with pytest.raises(MappingError, match="nearest pipeline_flushes_per_step: 6 or 8"):
        amped.estimate("default", pipeline_flushes_per_step=7)


LATE = {"early_handover": False, "zero_stage": 1, "overlap_data_communication": True, "batch_size": 1536}


def test_a_stage_that_exchanges_before_it_hands_over_delays_all_stages_before_in_each_run_of_the_pipeline():
    early, late, twice = (
        amped.estimate("default", **(LATE | more))
        for more in ({"early_handover": True}, {}, {"pipeline_flushes_per_step": 2})
    )
    stages, once = late["pipeline_parallel_degree"], early["gradient_communication_time"]
    assert late["gradient_communication_time"] == once
    assert late["overlapped_gradient_communication_time"] == 0
    waits = late["weight_communication_time"] - late["overlapped_weight_communication_time"]
    assert late["data_exchanges_of_other_stages_time"] == pytest.approx((stages - 1) * (once + waits), rel=1e-12)
    assert twice["gradient_communication_time"] == 2 * once
    assert early["data_exchanges_of_other_stages_time"] == 0


def test_one_stage_hands_nothing_over():
    alone = {"pipeline_parallel_degree": 1, "pipeline_flushes_per_step": 1}
    assert amped.estimate("default", **LATE, **alone)["step_time"] == amped.estimate("default", **(LATE | alone | {"early_handover": True}))["step_time"]  # fmt: skip
