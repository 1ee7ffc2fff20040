"""The fused attention of training beside cuDNN's own benchmark: forward and backward, masks, windows, wide and narrow heads.

`tests/data/attention_of_training.csv` has the times of cuDNN 9.18 (GB200) and 9.19 (GB300, H200, and GB200's heads of 64).
The coefficients of the backward pass of Hopper and Blackwell were fitted to these rows, and those of the forward pass only
on GB300: elsewhere they come from kernels of inference.
Source: NVIDIA/cudnn-frontend, benchmark/sdpa_benchmark_training/results at 9072c4e (gb200_918) and afa9f7c (919).
"""

import csv
from collections import defaultdict
from pathlib import Path

import numpy as np
import pytest

from amped.calibration.kernel_errors import machine
from amped.measured_kernels.attention import attention
from amped.measured_kernels.predictor import timed
from amped.tables.tables import Tables

PASSES = {"forward": "forward_ms", "input_gradient": "backward_ms"}


def measured():
    path = Path(__file__).parents[1] / "data" / "attention_of_training.csv"
    with path.open(encoding="utf-8") as file:
        return [{n: v if n == "accelerator" else float(v) for n, v in row.items()} for row in csv.DictReader(file)]


def predicted(row, phase, known):
    """Seconds of one pass."""
    batch, tokens, heads, key_value_heads = (row[name] for name in ("batch", "tokens", "heads", "key_value_heads"))
    widths, window = (row["key_width"], row["value_width"]), min(row["window"] or row["tokens"], row["tokens"])
    rows = batch * heads * tokens
    pairs = batch * heads * (tokens * window - window**2 / 2) if row["causal"] else rows * tokens
    entries = rows * widths[0] + batch * key_value_heads * tokens * sum(widths)
    edges = (1.0 + (window < tokens)) * row["causal"]
    return timed(attention(rows, window, widths, pairs, entries, phase, edges), known)


@pytest.fixture(scope="module")
def errors():
    """For each accelerator, pass and pair of widths, predicted over measured times, minus 1."""
    tables = Tables()
    machines = {name: machine(name, "bfloat16", tables, None) for name in {row["accelerator"] for row in measured()}}
    found = defaultdict(list)
    for row in measured():
        for phase, column in PASSES.items():
            told = predicted(row, phase, machines[row["accelerator"]]) / (row[column] / 1000) - 1
            found[row["accelerator"], phase, row["key_width"]].append(told)
    return found


@pytest.mark.parametrize("accelerator", ["GB200", "GB300", "H200 SXM"])
def test_the_backward_pass_is_that_of_the_benchmark(errors, accelerator):
    own = [
        abs(e)
        for (name, phase, _), each in errors.items()
        if (name, phase) == (accelerator, "input_gradient")
        for e in each
    ]
    assert len(own) >= 15
    assert np.mean(own) < 0.02
    assert max(own) < 0.06


@pytest.mark.parametrize(("accelerator", "mean"), [("GB200", 0.04), ("GB300", 0.05), ("H200 SXM", 0.06)])
def test_the_forward_pass_is_near_the_benchmark(errors, accelerator, mean):
    own = [
        abs(e) for (name, phase, _), each in errors.items() if (name, phase) == (accelerator, "forward") for e in each
    ]
    assert np.mean(own) < mean
    assert max(own) < 0.13


def test_wide_heads_are_not_predicted_faster_than_they_are(errors):
    """Keys of 192 beside values of 128 have more work for each exponential, but smaller blocks: both passes are fair."""
    for (_, _, width), own in errors.items():
        if width > 128:
            assert -0.06 < np.mean(own) < 0.06
