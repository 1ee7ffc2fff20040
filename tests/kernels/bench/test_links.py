"""Collectives: planted latencies and rates come back, rows carry them into an estimate, and two real processes are fitted."""

import json
import shlex

import numpy as np
import pytest

import amped
from amped.base.errors import ConfigError
from amped.cli.bench_fit import collectives
from amped.kernels import rows
from amped.kernels.calibration import as_json, calibrated
from amped.kernels.link_fit import linked
from amped.kernels.specs import spec
from tests.helpers.bench import CPU, DEFAULTS, needs_torch, record, result
from tests.helpers.cli import verb

# Seconds of a step and byte/s, by kind.
TRUTH = {"all_reduce": (40e-6, 2e9), "all_gather": (90e-6, 5e9), "reduce_scatter": (60e-6, 4e9),
         "send_receive": (10e-6, 8e9), "broadcast": (25e-6, 3e9)}  # fmt: skip
SIZES = [1 << exponent for exponent in range(10, 25, 2)]
STEPS = {"all_reduce": lambda n: 2 * (n - 1), "send_receive": lambda n: 1}


def measured_by_hand(ranks, kinds=TRUTH, sizes=SIZES, noise=0.02):
    """Records of collectives by a ring: every step waits, and each link passes on its share of the payload."""
    random, made = np.random.default_rng(5), []
    for kind in kinds:
        latency, rate = TRUTH[kind]
        for size in sizes:
            share = {"all_reduce": 2 * (ranks - 1) / ranks, "send_receive": 1, "broadcast": 1}.get(
                kind, (ranks - 1) / ranks
            )
            steps = STEPS.get(kind, lambda n: n - 1)(ranks)
            seconds = (steps * latency + share * size / rate) * (1 + random.uniform(-noise, noise))
            made.append(record(kind, seconds=seconds, flags=("noisy", "unsettled"), bytes=size, ranks=ranks)
                        | {"impl": "torch.distributed, gloo"})  # fmt: skip
    return made


@pytest.mark.thorough
@pytest.mark.parametrize("ranks", [2, 4])
def test_planted_latencies_and_rates_come_back(ranks):
    found = linked(result(measured_by_hand(ranks)), collectives())
    assert (found.ranks, found.backend) == (ranks, "gloo")
    for kind, (latency, rate) in TRUTH.items():
        assert found.latencies[kind] == pytest.approx(latency, rel=0.05), kind
        assert found.rates[kind] == pytest.approx(rate, rel=0.05), kind
    assert found.bandwidth == found.rates["send_receive"]
    assert found.share("all_reduce") == pytest.approx(0.25, rel=0.06)
    assert next(s for s in found.strata if s.name == "all").held_out < 0.04


def test_a_constant_rate_without_a_latency_would_be_far_off():
    records = [r for r in measured_by_hand(2) if r["kernel"] == "all_reduce"]
    small = min(records, key=lambda r: r["params"]["bytes"])
    assert small["bytes"] / small["time_s"]["min"] < TRUTH["all_reduce"][1] / 50


def test_too_few_tell_nothing_and_none_is_no_matter():
    few = calibrated(result(measured_by_hand(2, ["all_reduce"], SIZES[:4])), CPU, DEFAULTS,
                     collective_time=collectives())  # fmt: skip
    assert few.network is None
    assert few.refused["collectives"] == "4 records, and a fit needs 8: the defaults stay"
    assert "collective_overhead_time" not in few.values
    none = calibrated(result([]), CPU, DEFAULTS, collective_time=collectives())
    assert (none.network, none.refused) == (None, {})


def test_a_kind_of_one_size_is_left_out():
    found = linked(
        result([*measured_by_hand(2, ["all_reduce"]), *measured_by_hand(2, ["broadcast"], SIZES[:1])]), collectives()
    )
    assert set(found.rates) == {"all_reduce"}


def test_a_row_of_links_has_what_each_kind_reaches():
    content = result(measured_by_hand(4))
    found = calibrated(content, CPU, DEFAULTS, collective_time=collectives())
    row = rows.link_row(found.network, rows.source_of(content, "amped bench fit r.json", "0.1.0"))
    assert row["all_reduce_efficiency"] == pytest.approx(0.25, rel=0.06)
    assert row["point_to_point_efficiency"] == 1
    assert "all_reduce 40.04 us" in row["notes"]
    assert "all_to_all_efficiency" not in row
    # What a step costs has overhead and ramp in it, and the row says so.
    own = rows.kernel_row(found, content, "default", "a source")
    assert (own["collective_overhead_time"], own["inter_accelerator_ramp_bytes"]) == ("0 us", "0 MB")
    assert as_json(found)["network"]["rates"]["all_reduce"] == pytest.approx(2e9, rel=0.05)


@pytest.mark.thorough
def test_an_estimate_takes_the_rows_that_were_written(tmp_path, capsys):
    kernels = [record("copy", seconds=1e-3, rows=1024, columns=1024), record("gemm", seconds=1e-3, m=256, n=256, k=256)]
    path, folder = tmp_path / "r.json", tmp_path / "t"
    path.write_text(json.dumps(result([*kernels, *measured_by_hand(2)])))
    verb("bench", "fit", path, "-o", folder)
    told, name = capsys.readouterr(), "a processor 1 thread"
    assert "2 processes, gloo" in told.out
    assert f"--system '{name} 2 processes gloo'" in told.err
    assert "--set 'inter_accelerator_latency=" in told.err
    (line,) = [line.removeprefix("use it: amped ") for line in told.err.splitlines() if line.startswith("use it: ")]
    verb(*shlex.split(line))
    capsys.readouterr()
    found = amped.estimate("default", system=f"{name} 2 processes gloo", accelerator=name, lookup_tables=str(folder),
                           model="GPT-2 small", number_of_accelerators=2, tensor_parallel_degree=2, batch_size=2,
                           pipeline_parallel_degree=1, data_parallel_degree=1, microbatch_size=1,
                           matrix_precision="fp32", sequence_parallel=False)  # fmt: skip
    assert found["inter_accelerator_latency"] == pytest.approx(40e-6, rel=0.05)
    assert found["inter_accelerator_bandwidth"] * found["inter_accelerator_efficiency"] == pytest.approx(2e9, rel=0.05)
    assert found["collective_overhead_time"] == found["inter_accelerator_ramp_bytes"] == 0
    # The all-reduce of a layer: two steps, and the whole payload over a link once.
    payload = found["microbatch_tokens"] * found["dimensionality"] * found["activation_precision"]
    assert tensor_seconds(found) == pytest.approx(2 * 40e-6 + payload / 2e9, rel=0.05)


def tensor_seconds(found):
    """Seconds of one all-reduce of tensor parallelism."""
    return float(next(d.time for d in found.results.records("tensor_durations") if d.kind == "all_reduce"))


@needs_torch
def test_two_real_processes_are_measured_and_fitted(tmp_path):
    from amped.kernels import bench_run

    work = bench_run.Request(tmp_path / "r.json", kernels=lambda dtype: [spec("copy", dtype, rows=64, columns=64)],
                         device="cpu", budget=0.1, ranks=2)  # fmt: skip
    found = linked(bench_run.measured(work), collectives())
    assert not isinstance(found, str), found
    assert found.backend == "gloo"
    assert set(found.rates) == {"all_reduce", "all_gather", "broadcast", "send_receive"}
    assert all(1e-7 < latency < 1 for latency in found.latencies.values())
    assert all(1e6 < rate < 1e12 for rate in found.rates.values())
    # Not a bound on the machine: the larger payload takes longer, and is fitted as such.
    assert next(s for s in found.strata if s.name == "all").train < 1.0


def test_more_processes_than_gpus_are_refused():
    torch = pytest.importorskip("torch")
    if torch.cuda.device_count() >= 64:
        pytest.skip("here are as many")
    from amped.kernels.collective import timings

    with pytest.raises(ConfigError, match="needs as many GPUs"):
        next(timings([], 64, "cuda"))
