"""The fused attention of training: cuDNN's own benchmark, as a file and as numbers to be near to.

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

from amped.base.errors import FileError
from amped.calibration.kernel_errors import machine
from amped.measured_kernels.kernel_files import read_all
from amped.measured_kernels.kinds import KINDS
from amped.measured_kernels.timed import timed_kernels
from amped.tables.tables import Tables

PASSES = {"training_attention_forward": "forward_ms", "training_attention_backward": "backward_ms"}


def measured():
    """The rows by accelerator, each a dictionary of columns."""
    path = Path(__file__).parents[1] / "data" / "attention_of_training.csv"
    found = defaultdict(list)
    with path.open(encoding="utf-8") as file:
        for row in csv.DictReader(file):
            found[row.pop("accelerator")].append(row)
    return {
        name: {
            column: np.array([row[column] for row in rows], dtype=None if column == "mask" else float)
            for column in rows[0]
        }
        for name, rows in found.items()
    }


@pytest.fixture(scope="module")
def errors():
    """For each accelerator and pass: the widths of keys, and predicted over measured times, minus 1."""
    tables, found = Tables(), {}
    for name, columns in measured().items():
        for kind, column in PASSES.items():
            told = KINDS[kind].time(columns, machine(name, "bfloat16", tables))
            found[name, kind] = columns["key_width"], told / (columns[column] / 1000) - 1
    return found


@pytest.mark.parametrize("accelerator", ["GB200", "GB300", "H200 SXM"])
def test_the_backward_pass_is_that_of_the_benchmark(errors, accelerator):
    _, own = errors[accelerator, "training_attention_backward"]
    assert len(own) >= 15
    assert np.mean(abs(own)) < 0.02
    assert max(abs(own)) < 0.06


@pytest.mark.parametrize(("accelerator", "mean"), [("GB200", 0.04), ("GB300", 0.05), ("H200 SXM", 0.06)])
def test_the_forward_pass_is_near_the_benchmark(errors, accelerator, mean):
    _, own = errors[accelerator, "training_attention_forward"]
    assert np.mean(abs(own)) < mean
    assert max(abs(own)) < 0.13


def test_wide_heads_are_not_predicted_faster_than_they_are(errors):
    """Keys of 192 beside values of 128 have more work for each exponential, but smaller blocks: both passes are fair."""
    for widths, own in errors.values():
        assert -0.06 < np.mean(own[widths > 128]) < 0.06


# --- its files --------------------------------------------------------------------------------------------------------

HEADS = ("config_name,model_name,backend,data_type,attn_mask,batch_size,q_seqlen,kv_seqlen,num_q_heads,num_kv_heads,head_dim_qk,head_dim_vo,"
         "profile_pass,deterministic_bwd,{times}sliding_window_size,success,error_message,gpu_name,cudnn_backend_version")  # fmt: skip
BOTH, ONE = HEADS.format(times="fwd_time_ms,bwd_time_ms,"), HEADS.format(times="time_ms,")
DSV3 = "dsv3,dsv3,cudnn,{written},{mask},1,4096,{keys},128,128,192,128,{of},{sure},{times},,True,,NVIDIA GB200,91801"


def line(written="bfloat16", mask="top_left", keys="4096", of="both", sure="True", times="0.519,1.650"):
    return DSV3.format(written=written, mask=mask, keys=keys, of=of, sure=sure, times=times)


def result(folder, *lines, heads=BOTH):
    path = folder / "dsv3.csv"
    path.write_text("\n".join((heads, *lines)) + "\n", "utf-8")
    return path


def only(path):
    (found,) = read_all(path)
    return found


def test_a_line_of_both_passes_is_two_kernels(tmp_path):
    found = only(result(tmp_path, line()))
    assert found.tool == "cuDNN's attention benchmark"
    told = {next(name for name, kind in KINDS.items() if kind is each.kind): each for each in found.kernels}
    assert {name: (each.accelerator, each.library, each.times.tolist()) for name, each in told.items()} == {
        "training_attention_forward": ("GB200", "cudnn 91801", [pytest.approx(519e-6)]),
        "training_attention_backward": ("GB200", "cudnn 91801 deterministic", [pytest.approx(1650e-6)]),
    }
    own = told["training_attention_forward"].columns
    assert {name: value[0] for name, value in own.items() if name in KINDS["training_attention_forward"].shape} == {
        "batch": 1, "tokens": 4096, "heads": 128, "key_value_heads": 128, "key_width": 192, "value_width": 128,
        "mask": "causal", "window": 0,
    }  # fmt: skip


def test_newer_results_have_a_line_for_each_pass(tmp_path):
    lines = [line(of=name, sure="False", times=time) for name, time in (("fwd", "0.502"), ("bwd", "1.677"))]
    found = only(result(tmp_path, *lines, heads=ONE))
    assert found.read() == {"training_attention_forward": 1, "training_attention_backward": 1}


def test_what_did_not_run_or_has_no_law_is_left_out_with_its_reason(tmp_path):
    failed = line(times="inf,inf").replace(",True,,NVIDIA", ',False,"failed\nstderr: no kernel, sorry",NVIDIA')
    found = only(result(tmp_path, line(), failed, line(written="fp8"), line(mask="bottom_right"), line(keys="8192")))
    assert sum(found.read().values()) == 2
    assert set(found.left) == {
        "the kernel did not run", "attention of training in fp8: amped has a law of 16 bits", "the mask bottom_right",
        "more keys than queries",
    }  # fmt: skip


def test_a_damaged_line_is_told_with_its_number(tmp_path):
    with pytest.raises(FileError, match=r"(?s)line 3.*column 'bwd_time_ms': 'fast' is no number above 0"):
        read_all(result(tmp_path, line(), line(times="0.5,fast")))


@pytest.mark.parametrize(("own", "heads", "told"), [
    (line()[:40], BOTH, "line 2.*has 7 of 21 columns"),
    (line(of="sideways"), BOTH, "line 2.*'profile_pass': 'sideways' is none of fwd, bwd, both"),
    (line(of="both", times="0.5"), ONE, "line 2.*'profile_pass': 'both' is none of fwd, bwd"),
    (line(), BOTH.replace("num_q_heads", "heads"), "line 2.*'num_q_heads': .* is no number above 0"),
])  # fmt: skip
def test_a_line_that_is_cut_or_has_another_pass_is_told(tmp_path, own, heads, told):
    with pytest.raises(FileError, match=f"(?s){told}"):
        read_all(result(tmp_path, own, heads=heads))


def test_estimates_take_a_measured_attention_of_their_widths_only(tmp_path):
    """A head of 192 and 128 is another shape than one of 128 and 128."""
    narrow = line(sure="False", times="0.4,1.2").replace(",192,128,", ",128,128,")
    records = timed_kernels(result(tmp_path, line(sure="False"), narrow), lambda name: name == "GB200")
    assert sorted(float(width) for each in records for width in each.operator.both_widths) == [256, 256, 320, 320]
