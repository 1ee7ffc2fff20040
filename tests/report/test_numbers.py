"""One way to write numbers: no powers of ten where none is needed, commas between thousands, one thing in the singular."""

import re
from pathlib import Path

import pytest

from amped.base.numbers import counted, digits, settable
from amped.base.units import parse
from amped.report import human
from tests.helpers.cli import amped as command
from tests.helpers.cli import printed

EXPONENT = re.compile(r"\d[eE][+-]?\d\d")


@pytest.mark.parametrize(
    ("number", "written"),
    [
        (0, "0"), (1024, "1,024"), (70358466560, "70,358,466,560"), (6282.125, "6,282"), (0.25, "0.2500"),
        (28375690.5, "28,375,690"), (1.234e-5, "0.00001234"), (4.51075e21, "4.511 x 10^21"), (-1536, "-1,536"),
    ],
)  # fmt: skip
def test_a_number_is_written_without_an_exponent(number: float, written: str) -> None:
    assert digits(number) == written


@pytest.mark.parametrize("number", [8, 0.1, 512, 300e9, 1.5e13, 123_456_789, 2.5e-7, 1_234_567.0])
def test_what_amped_writes_for_a_command_is_read_as_that_number(number: float) -> None:
    assert parse(settable(number), "count") == number


def test_one_thing_is_in_the_singular() -> None:
    assert (counted(1, "accelerator"), counted(1024, "accelerator")) == ("1 accelerator", "1,024 accelerators")
    assert "\n1 accelerator: one accelerator" in printed("estimate", "--model", "GPT-2 small", "--gpus", 1, "--full")


def test_a_ratio_has_no_exponent() -> None:
    assert (human.ratio(0.5), human.ratio(123456.0), human.ratio(1.01)) == ("0.5", "123,456", "1.01")


def test_a_note_about_tokens_is_given_only_where_they_differ(tmp_path: Path) -> None:
    same = command("estimate", "default", "--model", "GPT-3 175B", "--json", folder=tmp_path)
    other = command("estimate", "default", "--model", "Llama 3 8B", "--json", folder=tmp_path)
    assert "tokens_to_train stays" not in same.stderr
    assert "was trained on 15 T" in other.stderr


@pytest.mark.parametrize(
    "words",
    [
        ("estimate", "--model", "Llama 3 8B"),
        ("why",),
        ("estimate", "--full", "--gemm", "--compute-graph", "--output-dir", "out"),
    ],
)
def test_no_verb_prints_an_exponent(words: tuple[str, ...], tmp_path: Path) -> None:
    done = command(words[0], "default", *words[1:], folder=tmp_path)
    assert done.returncode == 0
    written = [path.read_text("utf-8") for path in tmp_path.glob("out/*.txt") if "config_summary" not in path.name]
    assert [found for text in (done.stdout, done.stderr, *written) for found in EXPONENT.findall(text)] == []


def test_groups_are_named_by_what_they_share() -> None:
    told = printed(
        "explore", "minimal", "--space", "degrees", "--vary", "batch_size=16,32", "--each", "batch_size", "--top", 1
    )
    assert "best of batch size 16\n" in told
