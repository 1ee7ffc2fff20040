"""Pictures of a step: their title fits, every degree is in a label, totals stand on bars, and gray tells kinds apart."""

import struct
import zlib
from itertools import combinations, pairwise

import pytest

import amped
from amped.configuring.scenario import read_scenario
from amped.estimation.estimation import Estimation, estimated
from amped.report import plots
from tests.helpers.contract import KINDS
from tests.helpers.places import ROOT

MIXTURE = {"context": 8192, "context_parallel_degree": 2, "expert_parallel_degree": 8}


def an_estimate(config: str, **values: object) -> Estimation:
    return estimated(read_scenario(config, values))


def lightness(color: str) -> float:
    red, green, blue = (int(color[place : place + 2], 16) for place in (1, 3, 5))
    return 0.299 * red + 0.587 * green + 0.114 * blue


def texts_of(png: bytes) -> dict[str, str]:
    """The texts that a PNG carries."""
    found, place = {}, 8
    while place < len(png):
        (length,) = struct.unpack(">I", png[place : place + 4])
        kind, body = png[place + 4 : place + 8], png[place + 8 : place + 8 + length]
        if kind in (b"tEXt", b"zTXt"):
            name, _, text = body.partition(b"\0")
            found[name.decode()] = (zlib.decompress(text[1:]) if kind == b"zTXt" else text).decode("latin-1")
        place += 12 + length
    return found


def test_kinds_of_time_can_be_told_apart_in_gray() -> None:
    shades = sorted(lightness(color) for color in plots.COLORS.values())
    assert min(lighter - darker for darker, lighter in pairwise(shades)) > 30


def test_parts_of_one_kind_have_different_hatches() -> None:
    looks = {part: (plots.look(part)["facecolor"], plots.look(part)["hatch"]) for part in plots.STEP_PARTS}
    assert all(one != other for one, other in combinations(looks.values(), 2))


@pytest.mark.parametrize("text", ["short", "a title of many words " * 12, "a\nb " * 40])
def test_no_line_of_a_title_is_wider_than_its_figure(text: str) -> None:
    figure = plots.new_figure(plots.STEP_WIDTH, 3)
    plots.titled(figure, text, plots.STEP_WIDTH)
    figure.draw_without_rendering()
    assert figure._suptitle.get_window_extent().width <= figure.bbox.width
    assert figure.get_suptitle().split() == text.split()


def test_context_and_expert_degrees_are_in_the_labels() -> None:
    told = plots.short_degrees(an_estimate("mixtral-8x7b", **MIXTURE)).replace("\N{NO-BREAK SPACE}", " ")
    assert {"cp 2", "ep 8"} <= {" ".join(pair) for pair in pairwise(told.split())}
    alone = dict.fromkeys((f"{kind}_parallel_degree" for kind in KINDS), 1)
    assert plots.short_degrees(alone) == "one"


def test_the_readme_shows_todays_numbers() -> None:
    drawn = texts_of((ROOT / "docs" / "step_time.png").read_bytes()).get(plots.DRAWN)
    now = plots.drawn_numbers(an_estimate("default"))[plots.DRAWN]
    assert drawn == now, "amped estimate --plot draws docs/step_time.png anew"


def test_a_picture_carries_the_numbers_that_it_shows() -> None:
    e = an_estimate("mixtral-8x7b", **MIXTURE)
    told = texts_of(plots.step_time_plot(e))[plots.DRAWN]
    assert f"step_time {e['step_time']:.2f}" in told
    assert "exposed_expert_communication_time" in told


def test_totals_stand_on_the_bars() -> None:
    from amped.report.exploring_plots import parts

    rows = {n: amped.explore("minimal", number_of_accelerators=n, top=1, space="quick").best[0] for n in (8, 16)}
    drawn, _ = parts(rows, "number_of_accelerators", "training_time")
    totals = [float(text.get_text()) for text in drawn.axes[0].texts]
    assert totals[0] / totals[1] == pytest.approx(rows[8]["step_time"] / rows[16]["step_time"], rel=0.02)
