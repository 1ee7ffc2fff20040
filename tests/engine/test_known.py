"""What a run takes over from the run before: only what it would compute itself, bit for bit."""

from collections.abc import Mapping
from typing import Any

import numpy as np
import pytest

from amped.configuring.sources import Sources
from amped.engine.axes import JointAxis
from amped.engine.evaluate import run_in_blocks
from amped.engine.known import Known
from amped.engine.resolve import plan
from amped.theory.language.catalogue import Catalogue, catalogue
from tests.helpers.formulas import page
from tests.helpers.joint import BANDWIDTH, COLUMNS, OPEN, joint_columns, scenario

NAMES = ("step_time", "memory_per_accelerator_bytes", "fits_in_memory", "layer_time")
AXES = OPEN | {BANDWIDTH: np.array([1e11, 3e11])}
FEW = {name: column[::100] for name, column in joint_columns().items()}
Found = dict[str, bytes]


def found(known: Known | None, rows: int = 400, columns: Mapping[str, np.ndarray] = FEW, axes: Mapping[str, np.ndarray] = AXES,
          formulas: Catalogue | None = None, choices: Mapping[str, str] | None = None, **given: float) -> Found:  # fmt: skip
    """The results of a run, as bytes."""
    sources = scenario().sources
    searched = {"tensor_parallel_degree", "pipeline_parallel_degree"}
    values = {name: value for name, value in sources.given.items() if name not in searched}
    values |= dict.fromkeys((*COLUMNS, *columns, *axes), 1.0) | given
    chosen = plan(formulas or catalogue(), NAMES, Sources(given=values, choices={**sources.choices, **(choices or {})}))
    joint = known.axis(columns, 0.3, {}) if known else JointAxis(columns, 0.3)
    blocks = [*run_in_blocks(chosen, values, joint, dict(axes), frozenset(NAMES), rows, known)]
    return {name: b"".join(block.whole(name).tobytes() for block in blocks) for name in NAMES}


MORE = {**FEW, "virtual_pipeline_stages": 1.0 + (np.arange(len(FEW["batch_size"])) % 2)}
CHANGES: dict[str, dict[str, Any]] = {
    "nothing": {}, "a number": {"kernel_launch_time": 3e-6}, "a choice": {"choices": {"activation_recomputation": "full"}},
    "an open axis": {"axes": AXES | {"memory_bandwidth": np.array([0.5e12, 1e12, 3e12])}},
    "fewer open axes": {"axes": {"memory_bandwidth": OPEN["memory_bandwidth"]}},
    "other rows": {"columns": {name: column[7::100] for name, column in joint_columns().items()}},
    "fewer rows": {"columns": {name: column[:500] for name, column in FEW.items()}},
    "rows in another order": {"columns": {name: column[::-1].copy() for name, column in FEW.items()}},
    "one more variable": {"columns": MORE}, "longer blocks": {"rows": 5000},
}  # fmt: skip


@pytest.mark.thorough
@pytest.mark.parametrize("change", CHANGES.values(), ids=CHANGES)
def test_a_run_gives_the_same_bits_whatever_ran_before_it(change: dict[str, Any]) -> None:
    known = Known()
    assert [found(known), found(known, **change), found(known)] == [found(None), found(None, **change), found(None)]


def counting() -> tuple[Catalogue, list[int]]:
    """Formulas with one that counts its calls."""
    module = page("""
@quantity("count")
def stage_layers(layers, pipeline_parallel_degree):
    "Layers of a stage, counted. Source: test."
    CALLS.append(pipeline_parallel_degree.size)
    return layers / pipeline_parallel_degree
""")
    module.CALLS = []  # type: ignore[attr-defined]
    return catalogue((module,)), module.CALLS  # type: ignore[attr-defined]


def test_what_depends_on_nothing_that_changed_is_not_computed_again() -> None:
    formulas, calls = counting()
    known = Known()
    for change in ({}, CHANGES["a choice"], CHANGES["a number"], CHANGES["an open axis"]):
        found(known, formulas=formulas, **change)
    assert len(calls) == 1
    found(known, formulas=formulas, layers=48.0)
    assert len(calls) == 2


def test_what_the_run_before_did_not_use_is_forgotten() -> None:
    formulas, calls = counting()
    known = Known()
    for change in ({}, {"layers": 48.0}, {}):
        found(known, formulas=formulas, **change)
    assert len(calls) == 3
