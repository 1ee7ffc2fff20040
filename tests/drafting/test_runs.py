"""A question by names is planned and computed once: steps with nothing open are skipped, and what two steps need is handed on."""

import sys
from collections import Counter

import pytest

import amped
from amped.configuring.scenario import read_scenario
from amped.engine import evaluate, resolve

COUNTED = {f.__code__: name for f, name in (
    (evaluate.run, "runs"), (evaluate.run_layouts, "runs"), (evaluate.run_in_blocks, "runs"), (resolve.plan, "plans"),
    (read_scenario, "readings"),
)}  # fmt: skip
OPEN = {"model": "Llama 3 8B", "system": "DGX H100", "gpus": 16}
UNEVEN = {"model": "Llama 3 70B", "system": "DGX H100", "gpus": 64}
MAPPING = {"tp": 8, "pp": 4, "vp": 1, "mbs": 1, "recompute": "none", "zero": 1}
GIVEN = {
    "model": "Llama 3 70B",
    "system": "DGX H100",
    "gpus": 64,
    "gbs": 512,
    "seq": 8192,
    "tokens_to_train": 1e12,
    **MAPPING,
}
ALL = GIVEN | {"software": "Megatron-LM", "headroom": "10%", "precision": "bf16", "flash_attention": True,
               "sequence_parallel": True, "dropout": 0, "etp": 1, "ep": 1, "cp": 1}  # fmt: skip


def counted(question):
    """How often the engine runs and plans for a question, and how often it is read."""
    found = Counter()

    def called(frame, event, _):
        if event == "call" and frame.f_code in COUNTED:
            found[COUNTED[frame.f_code]] += 1

    before = sys.getprofile()
    sys.setprofile(called)
    try:
        amped.estimate(**question)
    finally:
        sys.setprofile(before)
    return found["runs"], found["plans"], found["readings"]


@pytest.mark.parametrize(
    ("question", "most"),
    [
        (ALL, (1, 1, 1)),
        (GIVEN, (3, 3, 4)),
        (OPEN, (10, 11, 6)),
        (UNEVEN | {"cp": 1}, (24, 27, 6)),
        (UNEVEN, (48, 54, 8)),
    ],
    ids=[
        "all is given",
        "what is open has one value",
        "all is open",
        "all is open, and no layout in chunks can gain",
        "all is open, and a split of sequences may gain",
    ],
)
def test_what_is_not_open_is_not_searched_and_what_is_known_is_not_computed_again(question, most):
    assert all(number <= limit for number, limit in zip(counted(question), most, strict=True))


def test_a_given_mapping_that_is_impossible_is_told_as_a_search_tells_it():
    with pytest.raises(
        amped.AmpedError,
        match="pipeline_parallel_degree=3 does not divide 64 accelerators: take pipeline_parallel_degree=2 or 4",
    ):
        amped.estimate(**GIVEN | {"pp": 3})
