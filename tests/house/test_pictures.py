"""The pictures of CONTRIBUTING are what their command draws from the code, complete, and grey."""

import re
import runpy
import subprocess
import sys

import pytest

from amped.theory.language.catalogue import CHAPTERS
from tests.helpers.places import ROOT
from tests.house.test_contributing import CONTRIBUTING, RECIPES
from tests.house.test_floors import FLOORS

HOUSE = ROOT / "docs" / "house"
DRAW = runpy.run_path(str(HOUSE / "draw.py"))
TITLES = [title for title, _ in DRAW["recipes_of"](RECIPES)]
SHOWN = {"floors.svg": [DRAW["label"](room) for room in FLOORS], "chapters.svg": CHAPTERS, "recipes.svg": TITLES}
every_picture = pytest.mark.parametrize("name", SHOWN)


@every_picture
def test_a_picture_is_what_the_command_draws(name: str) -> None:
    drawn = DRAW["PICTURES"][name]()
    assert (HOUSE / name).read_text("utf-8") == drawn, "python docs/house/draw.py"


@every_picture
def test_a_picture_shows_everything_in_grey_and_contributing_shows_it(name: str) -> None:
    picture = (HOUSE / name).read_text("utf-8")
    assert set(SHOWN[name]) <= set(re.findall(r">([^<]+)</text>", picture))
    assert {
        color[:2] for color in re.findall(r"#([0-9a-f]{6})", picture) if len(set(re.findall("..", color))) > 1
    } == set()
    assert f"/house/{name})" in CONTRIBUTING or f"(house/{name})" in (ROOT / "docs" / "recipes.md").read_text("utf-8")


def test_arrows_are_real_imports_from_which_all_others_follow() -> None:
    pairs = DRAW["imports"]()
    arrows = set(DRAW["direct"](pairs))
    assert arrows < pairs
    assert {(room, other) for room in FLOORS for other in DRAW["below"](room, arrows)} >= pairs
    assert all(FLOORS[one] > FLOORS[other] for one, other in pairs)


@pytest.mark.thorough
def test_the_house_is_counted() -> None:
    command = [sys.executable, str(HOUSE / "draw.py"), "--counts"]
    done = subprocess.run(command, capture_output=True, text=True, check=True, encoding="utf-8")
    counted = dict(re.split(r"  +", line, maxsplit=1) for line in done.stdout.splitlines())
    assert len(counted) > 25
    assert 300 < int(counted["DeepSeek V3: planned formulas"]) <= 770
    assert int(counted["DeepSeek V3: clones among them, by kind of layer"]) == 0
    assert int(counted["config default: formulas behind step_time"]) <= 408
    assert int(counted["config default: depth of step_time"]) <= 38
    assert int(counted["public names"]) <= 895
    assert int(counted["names that no search of theory/ finds"]) == 0
    assert int(counted["names that no search finds where they are defined"]) == 0
    assert int(counted["names that are exceptions to the order of chapters"]) <= 6
    assert counted["arrows by imports, upward among them"].endswith(", 0")
