"""What cannot be explored is refused with what to do instead."""

import pytest

from amped.base.errors import AmpedError, ConfigError, EvaluationError
from tests.helpers.explore import SMALL, explore


def test_where_no_mapping_divides_there_is_an_error() -> None:
    with pytest.raises(AmpedError, match=r"(?i)no mapping|divide"):
        explore(SMALL, number_of_accelerators=16, context_parallel_degree=3)


def test_a_sweep_of_an_unknown_name_is_refused_with_the_nearest() -> None:
    with pytest.raises(ConfigError, match=r"(?s)unknown parameter 'memory_bandwith'.*did you mean 'memory_bandwidth'"):
        explore(SMALL, vary={"memory_bandwith": [1]})


@pytest.mark.parametrize("name", ["layer_operators", "the_batch_divides_by_the_data_degree"])
def test_a_sweep_of_what_cannot_be_given_is_refused(name: str) -> None:
    with pytest.raises(ConfigError, match=name):
        explore(SMALL, vary={name: [1]})


@pytest.mark.parametrize("values", [[], [1e12, 1e12], ["8 parsecs"], [-1.0]])
def test_a_sweep_of_wrong_values_is_refused(values: list[object]) -> None:
    with pytest.raises(ConfigError, match="memory_bandwidth"):
        explore(SMALL, vary={"memory_bandwidth": values})


def test_all_that_is_wrong_with_a_sweep_is_told_at_once() -> None:
    wrong = {"tensor_parallel_degree": [1.5], "optimizer": ["adm"], "memory_bandwith": [1]}
    with pytest.raises(ConfigError) as refusal:
        explore(SMALL, vary=wrong)
    assert len(refusal.value.problems) == 3


@pytest.mark.parametrize(("model", "told"), [("amped", "inf"), ("operators", "(inf|nan)")])
def test_a_result_that_is_no_number_is_an_error(model: str, told: str) -> None:
    with pytest.raises(EvaluationError, match=f"came out as {told} "):
        explore(SMALL, performance_model=model, memory_bandwidth="1e-300 B/s")


def test_nothing_asked_for_is_refused() -> None:
    with pytest.raises(ConfigError, match="top"):
        explore(SMALL, top=0)
