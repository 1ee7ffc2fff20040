"""What amped writes for another framework, it reads back: every field that the table has for it, but those told as lost."""

from collections import Counter

import pytest

from amped.configuring.config import shipped_configs
from amped.configuring.scenario import read_scenario
from amped.estimation.estimation import Estimation, estimated
from amped.interop.exporting import TARGETS
from tests.helpers.interop import drawn_estimates, round_trip

READ_BACK = ("megatron", "slurm", "bridge", "torchtitan", "deepspeed", "automodel")


@pytest.mark.parametrize("form", READ_BACK)
@pytest.mark.parametrize("name", shipped_configs())
def test_a_shipped_config_comes_back(name: str, form: str) -> None:
    trip = round_trip(estimated(read_scenario(name), Estimation), form)
    assert {field: values for field, values in trip.differing.items() if field not in trip.lost} == {}


@pytest.mark.parametrize("form", READ_BACK)
def test_drawn_mappings_come_back(form: str) -> None:
    kept, lost, silent = Counter[str](), Counter[str](), Counter[str]()
    for there in drawn_estimates(200 // len(READ_BACK), form):
        trip = round_trip(there, form)
        kept.update(trip.kept)
        lost.update(trip.lost)
        silent.update({f"{name}: {values}": 1 for name, values in trip.differing.items() if name not in trip.lost})
    print(f"kept {dict(kept)}\nlost {dict(lost)}")
    assert silent == Counter()
    assert len(kept) > 10


def test_every_target_says_what_it_is() -> None:
    assert all(target.title and target.suffix.startswith(".") for target in TARGETS.values())
