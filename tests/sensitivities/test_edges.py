"""Sensitivity where a slope is not all: bends, jumps, bounds, zeros, lists, and what is refused."""

import pytest

import amped
from amped.base.errors import AmpedError, ConfigError
from amped.theory.language.quantity import ACCELERATOR, MAPPING, SYSTEM
from tests.helpers.config import config
from tests.helpers.sensitivity import alone

MADE_OF_TWO = '''
from amped.theory.language.quantity import SYSTEM, parameter, quantity

@parameter("s", category=SYSTEM)
def one_time():
    """One. Source: mine."""
    return 2

@parameter("s", category=SYSTEM)
def other_time():
    """Other. Source: mine."""
    return 2

@quantity("s")
def slower_time(one_time, other_time):
    """The slower. Source: mine."""
    import numpy as np
    return np.maximum(one_time, other_time)

@quantity("s")
def rounded_time(one_time):
    """Whole. Source: mine."""
    import numpy as np
    return np.ceil(one_time)
'''


@pytest.fixture
def two(tmp_path):
    path = tmp_path / "two.py"
    path.write_text(MADE_OF_TWO)
    return path


def test_a_maximum_bends(two):
    effect = amped.sensitivity(of="slower_time", formulas=two)["one_time"]
    assert (effect.elasticity_below, effect.elasticity_above) == (0, pytest.approx(1))
    assert effect.smooth is False
    assert amped.sensitivity(of="slower_time", formulas=two, one_time="3 s")["one_time"].smooth is True


def test_a_rounding_jumps_and_is_told_as_a_change(two):
    found = amped.sensitivity(of="rounded_time", formulas=two)
    effect = found["one_time"]
    assert effect.jumps
    assert effect.elasticity is None
    assert effect in found.changes
    assert effect.largest_change == 0.5  # 2 s become 3 s


def test_at_a_bound_there_is_one_side():
    effect = amped.sensitivity(wave_quantization=1)["wave_quantization"]
    assert effect.value == 1
    assert effect.elasticity_above is None
    assert effect.smooth is None
    assert effect.elasticity == effect.elasticity_below > 0


def test_from_zero_there_is_a_step():
    effect = amped.sensitivity(inter_node_latency="0 s")["inter_node_latency"]
    assert (effect.varied, effect.elasticity) == ("step", None)
    assert [trial.value for trial in effect.trials] == [1e-6]
    assert effect.largest_change > 0


def test_a_result_of_zero_has_changes_and_no_elasticities():
    found = amped.sensitivity(of="pipeline_bubble_time", pipeline_parallel_degree=1)
    assert found.value == 0
    assert found.elasticities == []
    pipeline = found["pipeline_parallel_degree"]
    assert pipeline.largest_change == amped.estimate(pipeline_parallel_degree=2)["pipeline_bubble_time"] > 0


# --- lists ----------------------------------------------------------------------------------------------------------


def test_a_list_of_the_config_is_tried_and_its_first_value_is_its_own():
    listed = config(
        SYSTEM, base=config(ACCELERATOR, memory_bandwidth=["3 TB/s", "4 TB/s", "2 TB/s"]), number_of_nodes=[8, 16]
    )
    found = amped.sensitivity(listed)
    assert found.value == amped.estimate(config(ACCELERATOR, memory_bandwidth="3 TB/s"))["step_time"]
    for name, values in (("memory_bandwidth", [2e12, 4e12]), ("number_of_nodes", [16])):
        effect = found[name]
        assert effect.varied == "list"
        assert [trial.value for trial in effect.trials] == values
        first = {"memory_bandwidth": "3 TB/s", "number_of_nodes": 8, "tensor_parallel_degree": 4}
        del first[name]
        assert [t.result for t in effect.trials] == [alone(config(), "step_time", effect, v, **first) for v in values]


@pytest.mark.parametrize(
    ("listed", "told"),
    [
        (config(MAPPING, activation_recomputation=["none", "full"]), "choice 'activation_recomputation' is a list"),
        (config() | {SYSTEM: {"lookup_config": {"lookup_table_row": ["DGX H100", "DGX A100"]}}}, "rows of system"),
    ],
)
def test_lists_that_need_other_formulas_or_rows_are_refused(listed, told):
    with pytest.raises(ConfigError, match=told):
        amped.sensitivity(listed)


@pytest.mark.parametrize(
    ("asked", "told"),
    [
        ({"of": "step_tim"}, "did you mean 'step_time'"),
        ({"of": "fits_in_memory"}, "'fits_in_memory' is no number"),
        ({"of": "layer_operators"}, "'layer_operators' is no number"),
        ({"of": "performance_model"}, "'performance_model' is no number"),
        ({"kinds": ["hardwear"]}, "there is no kind 'hardwear'"),
        ({"kinds": ["maping"]}, "did you mean 'mapping'"),
        ({"step": 0}, "0 is no step"),
        ({"step": float("nan")}, "nan is no step"),
        ({"of": 7}, "there is no quantity 7"),
        ({"of": "training_days", "step": 2}, "2 problems"),
        ({"tensor_parallel_degree": 7}, "nearest tensor_parallel_degree"),
    ],
)
def test_what_cannot_be_is_refused(asked, told):
    with pytest.raises(AmpedError, match=told):
        amped.sensitivity(**asked)


def test_a_name_that_is_not_varied_is_told():
    found = amped.sensitivity(kinds="system")
    assert {effect.kind for effect in found.effects} == {"system"}
    with pytest.raises(AmpedError, match="did you mean 'inter_node_latency'"):
        found["inter_node_latancy"]
