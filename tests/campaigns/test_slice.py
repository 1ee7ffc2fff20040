"""A slice of a campaign, always the same one: a few seconds of each kind of cases."""

import pytest

from tests.campaigns.kinds import KINDS
from tests.campaigns.running import Tally, next_case


@pytest.mark.thorough
@pytest.mark.parametrize("name", KINDS)
def test_a_slice_of_a_campaign(name: str) -> None:
    kind, tally = KINDS[name], Tally()
    for _ in range(kind.slice):
        next_case(kind, "slice", tally, print)
    assert not tally.failures, "\n".join(map(str, tally.failures.values()))
    assert tally.counts[name].results > 0
