"""An impossible split is told in one sentence: what does not divide what, and the nearest that do."""

import inspect

import pytest

import amped
from amped.exploration.impossible import SPLITS
from amped.theory.language.catalogue import catalogue
from tests.helpers.marks import further

DENSE = {"model": "Llama 3 70B", "system": "DGX H100"}
MIXTURE = {"model": "Mixtral 8x7B", "system": "DGX H100"}
# In the words of the command line.
estimate = inspect.unwrap(amped.estimate)


@pytest.mark.parametrize(
    ("asked", "told"),
    [
        (DENSE | {"gpus": 12, "tp": 8}, "--tp 8 does not divide 12 accelerators: take --tp 4, or --gpus 8 or 16"),
        (DENSE | {"gpus": 56, "tp": 7}, "--tp 7 does not divide 64 attention heads and 8 key heads: take --tp 4 or 8"),
        (DENSE | {"gpus": 64, "pp": 3}, "--pp 3 does not divide 64 accelerators: take --pp 2 or 4, or --gpus 63 or 66"),
        (DENSE | {"gpus": 64, "cp": 3}, "--cp 3 does not divide 64 accelerators and 8,192 tokens of a sequence: take --cp 2 or 4"),
        (DENSE | {"gpus": 64, "dp": 3}, "--dp 3 does not divide 64 accelerators: take --dp 2 or 4, or --gpus 63 or 66"),
        (DENSE | {"gpus": 64, "tp": 8, "pp": 16}, "--tp 8 x --pp 16 = 128 does not divide 64 accelerators: take --gpus 128"),
        (DENSE | {"gpus": 64, "tp": 8, "mbs": 3, "gbs": 100},
         "8 replicas x --mbs 3 = 24 do not divide a batch of 100: take --gbs 96 or 120"),
        (DENSE | {"gpus": 64, "pp": 8, "vp": 70}, "--pp 8 x --vp 70 = 560 does not divide 80 layers: take --vp 10"),
        (DENSE | {"gpus": 64, "vp": 41}, "--vp 41 does not divide 80 layers: take --vp 40"),
        (DENSE | {"gpus": 1024, "pp": 128}, "--pp 128 is more stages than 80 layers and both ends of the network fill: take --pp 64 or less"),
        (DENSE | {"gpus": 64, "pp": 1, "vp": 4},
         "--vp 4 needs several pipeline stages: leave out --vp, or take --pp 2 or more"),
        (MIXTURE | {"gpus": 64, "ep": 3}, "--ep 3 does not divide 64 accelerators and 8 experts: take --ep 2 or 4"),
        (MIXTURE | {"gpus": 12, "ep": 8}, "--ep 8 does not divide 12 accelerators: take --ep 4, or --gpus 8 or 16"),
        (DENSE | {"gpus": 64, "ep": 4}, "--ep 4 does not divide 1 expert: take --ep 1"),
    ],
)  # fmt: skip
def test_a_sentence_says_what_does_not_divide_what(asked, told):
    with pytest.raises(amped.AmpedError) as caught:
        estimate(**asked)
    assert str(caught.value) == f"no mapping is possible: {told}"


@pytest.mark.parametrize("changed", [{"tp": 4}, {"gpus": 8}, {"gpus": 16}])
def test_what_is_advised_is_possible(changed):
    assert amped.estimate(**DENSE | {"gpus": 12, "tp": 8} | changed)["step_time"] > 0


@pytest.mark.thorough
@pytest.mark.parametrize("split", [further({"pp": 32}), {"pp": 8, "vp": 7}, further({"pp": 16, "vp": 4})])
def test_stages_and_chunks_that_do_not_divide_the_layers_are_possible(split):
    assert amped.estimate(**DENSE, gpus=256, tp=8, **split).choices["pipeline_layout"]


def test_two_impossible_degrees_are_both_told():
    with pytest.raises(amped.AmpedError, match=r"--tp 5 does not divide .*take --tp 4 or 8\. --pp 3 does not divide"):
        estimate(**DENSE, gpus=64, tp=5, pp=3)


def test_the_rules_have_the_sizes_and_degrees_that_the_sentence_names():
    known = catalogue()
    for rule, (total, _, degree) in SPLITS.items():
        assert {total, degree} <= set(known[rule].formulas[0].arguments)


@pytest.mark.thorough
def test_the_batch_that_is_chosen_divides_by_the_micro_batch_that_is_given():
    assert amped.estimate(**DENSE, gpus=64, mbs=3)["microbatch_size"] == 3
