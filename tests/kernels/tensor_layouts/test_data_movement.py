"""What an encoder layer computes and moves: the published counts, and how near a time comes to the least one."""

import json
import re
import shlex

import pytest

from amped.base.errors import ConfigError
from amped.kernels.layer_shape import Dimensions
from amped.kernels.tensor_layouts import cost
from amped.kernels.tensor_layouts.spec import (
    CLASSES,
    ENCODER,
    ENCODER_FLASH,
    LETTERS,
    OPERATORS,
)
from tests.helpers.cli import ROOT, refused, verb
from tests.helpers.tensor_layouts import CONTRACTIONS

LONG, SHORT = Dimensions(8, 512, 16, 1024), Dimensions(96, 128, 16, 1024)
ODD = Dimensions(3, 5, 7, 77, 13)
V100, H200 = cost.Device(125e12, 0.9e12), cost.Device(0.78e15, 4.3e12)


@pytest.mark.parametrize(
    ("dimensions", "gigaflop", "megawords", "unfused", "saved"),
    [(LONG, 335.73, 1077.98, 1317.06, 18.2), (SHORT, 948.30, 2101.42, 2592.16, 18.9)],
)
def test_totals_are_the_golden_ones(dimensions, gigaflop, megawords, unfused, saved):
    total = cost.total(ENCODER, dimensions)
    assert total.flop / 1e9 == pytest.approx(gigaflop, abs=0.005)
    assert total.words / 1e6 == pytest.approx(megawords, abs=0.005)
    assert total.unfused_words / 1e6 == pytest.approx(unfused, abs=0.005)
    assert 100 * cost.fusion_saves(ENCODER, dimensions)[0] == pytest.approx(saved, abs=0.05)


def test_classes_have_their_golden_shares():
    classes, total = cost.totals_by_class(ENCODER, LONG), cost.total(ENCODER, LONG)
    assert [100 * classes[kind].flop / total.flop for kind in CLASSES] == pytest.approx(
        [99.785, 0.180, 0.035], abs=5e-4
    )
    assert [100 * classes[kind].words / total.words for kind in CLASSES] == pytest.approx([45.5, 37.0, 17.5], abs=0.05)
    assert classes["contraction"].words == 490_733_568
    assert 100 * cost.fusion_saves(ENCODER, LONG)[1] == pytest.approx(28.9, abs=0.05)


@pytest.mark.parametrize(
    ("name", "gigaflop"), [("QKV", 25.770), ("QKT", 4.295), ("dX2QKT", 4.295), ("out", 8.590), ("dWlin2", 34.360)]
)
def test_contractions_have_their_golden_flop(name, gigaflop):
    assert cost.work(OPERATORS[name], LONG).flop / 1e9 == pytest.approx(gigaflop, abs=5e-4)


def test_softmax_moves_what_the_paper_says():
    works = [cost.work(OPERATORS[n], LONG) for n in ("softmax", "bs")]
    assert [(w.words_in, w.words_out) for w in works] == [(33_554_432, 100_663_296), (100_663_296, 33_554_432)]


def test_rows_add_up_to_the_closed_forms():
    """Sums of the rows at odd sizes, where no two letters are as long, against the formulas by hand."""
    d = ODD
    b, j, n, h, u = d.batch, d.seq, d.hidden, d.heads, d.ffn
    a, s, m, r = b * j * n, h * b * j * j, b * j * u, b * j
    assert (
        sum(cost.work(o, d).flop for o in CONTRACTIONS) == 24 * b * j * n**2 + 12 * b * j * j * n + 12 * b * j * n * u
    )
    assert sum(cost.work(o, d).words for o in CONTRACTIONS) == 36 * a + 6 * s + 6 * m + 12 * n**2 + 6 * n * u
    vectors = sum(
        d.size(LETTERS[x]) for o in ENCODER for x in (*o.inputs, *o.outputs) if LETTERS[x] in ("i", "u", "qph")
    )
    fused = sum(cost.work(o, d).words for o in ENCODER if o not in CONTRACTIONS)
    assert fused == 44 * a + 8 * s + 8 * m + 4 * r + vectors
    assert cost.total(ENCODER, d).unfused_words - cost.total(ENCODER, d).words == 9 * a + 3 * s + 6 * m


def test_every_tensor_is_written_once_before_it_is_read_or_comes_from_outside():
    outside = {"X", "DY", "WKQV", "BKQV", "WO", "BO", "S1", "B1", "LINW1", "LINB1", "LINW2", "LINB2", "S2", "B2"}
    parts = {"KKQQVV": {"KK", "QQ", "VV"}, "DKKQQVV": {"DKK", "DQQ", "DVV"}}
    for layer in (ENCODER, ENCODER_FLASH):
        known = set(outside)
        for operator in layer:
            ready = (
                known
                | {x for x, of in parts.items() if of <= known}
                | {y for x in parts if x in known for y in parts[x]}
            )
            assert set(operator.inputs) <= ready, operator.name
            assert not set(operator.outputs) & known
            known |= set(operator.outputs)


def test_the_least_time_is_the_known_floor():
    by_class = {kind: sum(H200.bound(cost.work(o, LONG)) for o in ENCODER if o.kind == kind) for kind in CLASSES}
    assert 1e3 * sum(V100.bound(cost.work(o, LONG)) for o in ENCODER) == pytest.approx(4.34, abs=0.005)
    assert 1e3 * by_class["contraction"] == pytest.approx(0.51, abs=0.005)
    assert 1e3 * sum(by_class.values()) == pytest.approx(0.79, abs=0.005)


@pytest.mark.parametrize("device", [V100, H200])
def test_only_products_with_scores_are_memory_bound_among_contractions(device):
    bound = {o.name for o in CONTRACTIONS if device.is_memory_bound(cost.work(o, LONG))}
    assert bound == {"QKT", "gamma", "dX1gamma", "dX2gamma", "dX1QKT", "dX2QKT"}


@pytest.mark.parametrize("operator", ENCODER, ids=lambda o: o.name)
def test_no_time_at_or_above_the_bound_is_more_efficient_than_all(operator):
    work = cost.work(operator, LONG)
    bound = V100.bound(work)
    for time in (bound, 1.7 * bound, 40 * bound):
        mue, peak = V100.mue(work, time), V100.percent_of_peak(work, time)
        assert max(mue, peak) <= 100 * (1 + 1e-12)
        assert mue * time == pytest.approx(V100.mue(work, bound) * bound)
        assert (mue > peak) == V100.is_memory_bound(work)


def test_fused_attention_moves_a_fraction_of_the_words():
    explicit, fused = (cost.total(layer, LONG) for layer in (ENCODER, ENCODER_FLASH))
    assert fused.words < 0.75 * explicit.words
    assert fused.flop > explicit.flop  # scores are computed again in the backward pass


def test_the_command_prints_every_operator_and_the_totals(capsys):
    verb("data-movement", "--accelerator", "V100 SXM2 16GB")
    shown = capsys.readouterr().out
    assert all(operator.name in shown for operator in ENCODER)
    for golden in ("335.73", "1077.98", "1317.06", "99.785", "45.5", "Fusion removes 18.2 %", "28.9 %"):
        assert golden in shown
    assert max(map(len, shown.splitlines())) <= 100


def test_the_command_gives_json(capsys):
    verb("data-movement", "--batch", 96, "--seq", 128, "--json")
    told = json.loads(capsys.readouterr().out)
    assert told["total"]["words"] == 2_101_424_128
    assert len(told["operators"]) == len(ENCODER) == 32


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (["--heads", "15"], "hidden 1024 is not divisible by 15 heads"),
        (["--batch", "0", "--seq", "-1"], "2 problems"),
        (["--peak-flop-rate", "1 PFLOP/s"], "--memory-bandwidth is missing"),
        (["--peak-flop-rate", "1 parsec", "--memory-bandwidth", "1 TB/s"], "parsec"),
        (["--accelerator", "V100 SMX2"], "did you mean"),
        (["--plan", "b8-l51"], "neither a plan nor a file"),
    ],
)
def test_mistakes_are_told_without_a_traceback(arguments, told):
    code, written = refused("data-movement", *arguments)
    assert (code, "Traceback" in written) == (2, False)
    assert told in written


def test_the_nearest_numbers_of_heads_are_named():
    with pytest.raises(ConfigError, match="--heads 8 or 16"):
        Dimensions(8, 512, 15, 1024)


def test_the_page_shows_what_the_command_prints(capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", "100")
    page = (ROOT / "docs" / "data-movement.md").read_text("utf-8")
    shown = re.findall(r"```bash\namped (data-movement [^\n]*)\n```\n\n```text\n(.*?)\n```", page, re.S)
    assert len(shown) == 2
    for command, text in shown:
        verb(*shlex.split(command))
        assert text in "\n".join(line.rstrip() for line in capsys.readouterr().out.splitlines())
