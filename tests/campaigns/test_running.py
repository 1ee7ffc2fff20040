"""The runner of campaigns: failures are found, counted, made small and told in a line that runs again."""

import json
import shlex
import time
from random import Random

import pytest

from tests.campaigns.kinds import KINDS
from tests.campaigns.limits import GENEROUS
from tests.campaigns.records import Case, Kind, Seen
from tests.campaigns.running import Count, Tally, campaign, next_case
from tests.campaigns.trying import smallest, tried


def draw(random: Random) -> Case:
    return {"values": [random.randrange(40) for _ in range(8)], "other": {"words": "x" * 300}}


def run(case: Case) -> Seen:
    values = case.get("values", [])
    if 13 in values:
        raise ZeroDivisionError("thirteen")
    if 14 in values:
        while True:
            pass
    return Seen("too large: 15" if 15 in values else "", answered=len(values), count=len(values))


PLANTED = Kind("planted", draw, run, hourly=100, slice=1, seconds=0.1)


@pytest.mark.thorough
def test_every_planted_failure_is_found_once_and_made_small() -> None:
    told: list[str] = []
    tally = Tally()
    while len(tally.failures) < 3 and tally.counts.get("planted", Count()).cases < 300:
        next_case(PLANTED, "1", tally, told.append)
    assert {sign for _, sign in tally.failures} == {"ZeroDivisionError in test_running.py:run", "hangs", "too large"}
    found = [failure.case for failure in tally.failures.values()]
    assert sorted(case["values"] for case in found) == [[13], [14], [15]]
    assert all([*case] == ["values"] for case in found)
    assert len(told) == 3
    count = tally.counts["planted"]
    assert count.failures >= 3
    assert 0 < count.results <= count.answers


def test_a_campaign_ends_when_its_time_is_over() -> None:
    tally = campaign([PLANTED, KINDS["settings"]], "1", 0.0)
    assert {name: vars(count) for name, count in tally.counts.items()} == {
        name: vars(Count()) for name in ("planted", "settings")
    }


def test_a_failure_is_told_in_a_line_that_runs_again() -> None:
    _, failure = tried(PLANTED, {"values": [1, 13], "it's": "a 'word'"})
    assert failure is not None
    words = shlex.split(str(failure).splitlines()[-1])
    assert words[:5] == ["python", "-m", "tests.campaigns", "--again", "planted"]
    assert json.loads(words[5]) == {"values": [1, 13], "it's": "a 'word'"}


def test_waiting_ends_too() -> None:
    def wait(case: Case) -> Seen:
        time.sleep(60)
        return Seen()

    _, failure = tried(Kind("waits", draw, wait, 1, 1, seconds=1 / GENEROUS), {})
    assert failure is not None
    assert failure.sign == "hangs"


def test_what_fails_by_itself_is_not_made_smaller() -> None:
    _, failure = tried(PLANTED, {"values": [15]})
    assert failure is not None
    assert smallest(PLANTED, failure).case == {"values": [15]}


def test_the_same_seed_draws_the_same_cases() -> None:
    for kind in KINDS.values():
        one, other = (kind.draw(Random(f"seed {kind.name}")) for _ in range(2))
        assert json.dumps(one) == json.dumps(other), kind.name
