"""Several estimates at once: each as it is alone, a refusal in its place."""

import pytest

from amped.base.errors import AmpedError, EvaluationError
from amped.configuring.scenario import read_scenario
from amped.estimation import estimation
from amped.estimation.estimation import Estimation, estimated, estimated_each

GIVEN = (
    {"batch_size": 1536}, {"batch_size": 3072}, {"tensor_parallel_degree": 7}, {"batch_size": 768},
    {"activation_recomputation": "none"}, {"batch_size": 1536},
)  # fmt: skip


@pytest.fixture
def scenarios():
    return [read_scenario("default", given) for given in GIVEN]


def quantities(answer):
    return {name: answer.results[name].tobytes() for name in answer.results}


def test_each_is_bit_for_bit_what_it_is_alone(scenarios):
    together = estimated_each(scenarios)
    for place, scenario in enumerate(scenarios):
        if place == 2:
            assert isinstance(together[2], AmpedError)
            assert "attention_heads" in str(together[2])
        else:
            assert quantities(together[place]) == quantities(estimated(scenario))


def test_where_one_cannot_be_computed_the_others_are(scenarios, monkeypatch):
    def failing(*_):
        raise EvaluationError("a formula failed")

    before = [answer for answer in estimated_each(scenarios) if isinstance(answer, Estimation)]
    monkeypatch.setattr(estimation, "run_each", failing)
    after = [answer for answer in estimated_each(scenarios) if isinstance(answer, Estimation)]
    assert [quantities(answer) for answer in after] == [quantities(answer) for answer in before]
