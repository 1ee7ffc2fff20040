"""What amped writes for another framework, it reads back: every field that the table has for it, but those told as lost."""

from collections import Counter

import pytest

from amped.configuring.config import shipped_configs
from amped.configuring.scenario import read_scenario
from amped.estimation.estimation import estimated
from amped.interop.exporting import TARGETS
from tests.helpers.interop import drawn_estimates, round_trips

READ_BACK = ("megatron", "slurm", "bridge", "torchtitan", "deepspeed", "automodel", "huggingface")


DRAWN = 200


@pytest.mark.thorough
@pytest.mark.parametrize("form", READ_BACK)
def test_shipped_configs_come_back(form: str) -> None:
    shipped = [estimated(read_scenario(name)) for name in shipped_configs()]
    for name, trip in zip(shipped_configs(), round_trips(shipped, form), strict=True):
        assert (name, {field: pair for field, pair in trip.differing.items() if field not in trip.lost}) == (name, {})


@pytest.mark.thorough
@pytest.mark.parametrize("form", READ_BACK)
def test_drawn_mappings_come_back(form: str) -> None:
    kept, lost, silent = Counter[str](), Counter[str](), Counter[str]()
    for trip in round_trips(drawn_estimates(DRAWN, "200 mappings"), form):
        kept.update(trip.kept)
        lost.update(trip.lost)
        silent.update({f"{name}: {values}": 1 for name, values in trip.differing.items() if name not in trip.lost})
    print(f"kept {dict(kept)}\nlost {dict(lost)}")
    assert silent == Counter()
    assert len(kept) > 10


def test_every_target_says_what_it_is() -> None:
    assert all(target.title and target.suffix.startswith(".") for target in TARGETS.values())
