"""`amped bench run` on this machine: a tiny run, resuming, a small budget, collectives, and what is refused."""

import json
from operator import or_
from pathlib import Path
from types import SimpleNamespace

import pytest

pytest.importorskip("torch", reason="torch is not installed: pip install 'amped[torch]'")
from amped.base.errors import ConfigError, FileError
from amped.kernels import bench_run, device, suites
from amped.kernels.machine import machine_of
from amped.kernels.results import read_result
from amped.kernels.specs import spec
from amped.tables.tables import Tables
from tests.helpers.bench import HAS_TORCH, has_gpu, needs_gpu, record, result
from tests.helpers.cli import apart, verb

TINY = [spec("gemm", "float32", m=32 * i, n=32, k=32) for i in (1, 2)] + [spec("copy", "float32", rows=64, columns=64),
        spec("attention", "float32", batch=1, heads=2, queries=16, head_dimension=8, direction="backward")]  # fmt: skip


def request(path, **more):
    return bench_run.Request(**{"output": path, "kernels": lambda dtype: TINY, "device": "cpu", "budget": 1.5} | more)


def test_a_tiny_run_takes_seconds_and_says_what_it_measured_on(tmp_path):
    told = []
    bench_run.measured(request(tmp_path / "r.json"), lambda *what: told.append(what))
    found = read_result(tmp_path / "r.json")
    kernels = [each["kernel"] for each in (*found["records"], *found["skipped"])]
    assert sorted(kernels) == ["attention", "copy", "gemm", "gemm"]
    assert {each["reason"] for each in found["skipped"]} <= {"budget"}  # of a busy machine
    assert found["device"]["name"]
    assert found["host"]["threads"] == 1
    assert found["software"]["torch"]
    assert found["settings"]["statistic"] == "min"
    assert told[-1][:2] == (4, 4)


def test_a_run_that_was_ended_is_taken_up_again(tmp_path):
    path = tmp_path / "r.json"
    bench_run.measured(request(path, kernels=lambda dtype: TINY[:2]))
    before = read_result(path)["records"]
    with pytest.raises(FileError, match=r"exists and is not overwritten\n.*--resume"):
        bench_run.measured(request(path))
    bench_run.measured(request(path, resume=True))
    after = read_result(path)["records"]
    assert [r["params"] for r in after[:2]] == [r["params"] for r in before]
    # What was measured is kept, and measured more only where it was disturbed.
    assert all(a["time_s"]["n"] >= b["time_s"]["n"] for a, b in zip(after, before, strict=False))
    # A longer time counts only where the machine was quieter beside it.
    quieter = [a["gemm_tflops_beside"] > b["gemm_tflops_beside"] for a, b in zip(after, before, strict=False)]
    faster = [a["time_s"]["min"] <= b["time_s"]["min"] for a, b in zip(after, before, strict=False)]
    assert all(map(or_, quieter, faster))
    assert len(after) + len(read_result(path)["skipped"]) == 4  # of a busy machine, not all in time
    other = json.loads(path.read_text())
    other["device"]["name"] = "another"
    path.write_text(json.dumps(other))
    with pytest.raises(FileError, match="one machine"):
        bench_run.measured(request(path, resume=True))


def test_an_interrupt_leaves_what_was_measured(tmp_path):
    def stop(done, of, kernel):
        if done == 2:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        bench_run.measured(request(tmp_path / "r.json"), stop)
    assert len(read_result(tmp_path / "r.json")["records"]) == 2


def test_a_short_budget_lists_what_it_left_out(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    verb("bench", "run", "--suite", "quick", "--device", "cpu", "--budget", 2, "-o", "r.json")
    found = read_result(tmp_path / "r.json")
    assert {s["reason"] for s in found["skipped"]} == {"budget"}
    assert found["records"]
    assert f"{len(found['skipped'])} skipped ({len(found['skipped'])} budget)" in capsys.readouterr().err


def test_one_kernel_of_one_size(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    verb("bench", "run", "--kernel", "attention", "--size", "B=1,H=2,S=32,D=16", "--device", "cpu", "--budget", 5)
    (found,) = read_result(tmp_path / "bench.json")["records"]
    assert (found["params"]["heads"], found["params"]["queries"]) == (2, 32)


def test_a_model_s_layer_is_measured(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    options = (
        "--model",
        "GPT-2 small",
        "--gpus",
        1,
        "--tp",
        1,
        "--pp",
        1,
        "--set",
        "batch_size=1",
        "--set",
        "context=64",
    )
    verb("bench", "run", "--suite", "model", *options, "--device", "cpu", "--budget", 2)
    found = read_result(tmp_path / "bench.json")
    products = {
        tuple(r["params"][n] for n in "mnk") for r in [*found["records"], *found["skipped"]] if r["kernel"] == "gemm"
    }
    assert {(64, 2304, 768), (64, 768, 768), (64, 3072, 768), (64, 768, 3072)} <= products


def test_collectives_between_two_processes(tmp_path):
    bench_run.measured(request(tmp_path / "r.json", ranks=2, kernels=lambda dtype: TINY[:1], budget=0.1))
    found = read_result(tmp_path / "r.json")
    kinds = {r["kernel"] for r in found["records"]}
    assert {"all_reduce", "all_gather", "broadcast", "send_receive"} <= kinds, found["skipped"]
    large = next(r for r in found["records"] if r["kernel"] == "all_reduce" and r["params"]["bytes"] == 1 << 22)
    small = next(r for r in found["records"] if r["kernel"] == "all_reduce" and r["params"]["bytes"] == 1 << 10)
    assert large["time_s"]["min"] > small["time_s"]["min"]


# --- what is refused -------------------------------------------------------------------------------------------------


def test_without_torch_the_extra_is_named(tmp_path):
    done = apart("bench", "run", "-o", "r.json", folder=tmp_path, before="import sys; sys.modules['torch'] = None")
    assert done.returncode == 2
    assert "needs PyTorch" in done.stderr
    assert "pip install 'amped[torch]'" in done.stderr


@pytest.mark.parametrize(("options", "told"), [
    (("--device", "tpu"), "--device 'tpu' is not known"),
    (("--device", "cpu", "--dtype", "int4"), "--dtype 'int4' is not supported"),
    (("--device", "cpu", "--threads", "999"), "--threads 999 is not possible"),
    (("--size", "m=4"), "--size is of one kernel"),
    (("--kernel", "gem", "--device", "cpu"), "did you mean 'gemm'"),
])  # fmt: skip
def test_what_this_machine_cannot_do_is_refused(options, told, tmp_path):
    with pytest.raises(ConfigError, match=told):
        verb("bench", "run", *options, "-o", tmp_path / "r.json")


def test_a_gpu_that_is_not_there_is_refused(tmp_path):
    if has_gpu():
        pytest.skip("here is a GPU")
    with pytest.raises(ConfigError, match="there is no GPU to measure on"):
        verb("bench", "run", "--device", "cuda", "-o", tmp_path / "r.json")


def test_several_threads_on_a_busy_machine_are_refused(monkeypatch):
    monkeypatch.setattr(bench_run, "usable_cores", lambda: 4)
    monkeypatch.setattr(bench_run, "host_of", lambda threads: {"loadavg": 3.0})
    with pytest.raises(ConfigError, match="the machine is busy"):
        bench_run.refuse_crowded(2, "cpu")
    bench_run.refuse_crowded(1, "cpu")


def test_a_damaged_file_is_told(tmp_path):
    path = tmp_path / "r.json"
    path.write_text(json.dumps(result([record("gemm", m=1, n=1, k=1)]))[:-20])
    with pytest.raises(FileError, match="is not valid JSON"):
        verb("bench", "fit", path)


def test_a_gpu_is_measured_with_the_full_suite_unless_asked_otherwise(monkeypatch):
    """The longest kernel of the quick one takes such a GPU 0.1 ms."""
    monkeypatch.setattr(bench_run, "has_fp8", lambda device: False)
    memory = {"device": {"mem_bytes": 80e9}}
    plain = bench_run._wanted(bench_run.Request(Path("r.json")), "cuda", "bfloat16", memory)
    assert plain == suites.suite("full", "cuda", "bfloat16", 80e9)
    assert max(each.flop for each in plain) > 1e12
    assert bench_run._wanted(bench_run.Request(Path("r.json")), "cpu", "float32", memory) == suites.suite(
        "quick", "cpu", "float32", 80e9
    )
    asked = bench_run.Request(Path("r.json"), "quick")
    assert bench_run._wanted(asked, "cuda", "bfloat16", memory) == suites.suite("quick", "cuda", "bfloat16", 80e9)


@pytest.mark.parametrize(("answer", "found"), [
    ("570.1, 700.00, 1980, 3201, 35", {"driver": "570.1", "power_limit_w": 700.0, "temperature_c": 35.0,
                                       "clock_mhz": {"sm": 1980.0, "mem": 3201.0}}),
    ("570.1, [N/A], 1980, [N/A], 35", {"driver": "570.1", "temperature_c": 35.0, "clock_mhz": {"sm": 1980.0}}),
    ("", {}),
])  # fmt: skip
def test_a_gpu_is_asked_for_by_its_own_name_and_what_it_does_not_tell_is_left_out(answer, found, monkeypatch):
    asked = []

    def ran(command, **_):
        asked.append(command)
        return SimpleNamespace(stdout=answer)

    monkeypatch.setattr(device.subprocess, "run", ran)
    assert device._nvidia_smi("12ab") == found
    assert asked[0][-1] == "--id=GPU-12ab"


def test_a_ladder_without_a_row_says_how_to_make_one(monkeypatch, capsys):
    monkeypatch.setattr(device, "processor", lambda: "a processor that nobody measured")
    sizes = ("--hidden", 32, "--ffn", 32, "--heads", 2, "--seq", 8, "--batch", 1, "--device", "cpu")
    verb("bench", "ladder", *sizes, "--rungs", "functional", "--passes", 1)
    assert "`amped bench run` and `amped bench fit` make one" in " ".join(capsys.readouterr().err.split())


# --- a GPU -----------------------------------------------------------------------------------------------------------


@needs_gpu
@pytest.mark.slow
def test_on_a_gpu_the_full_suite_keeps_to_its_budget_and_is_sane(tmp_path):
    assert HAS_TORCH
    found = bench_run.measured(bench_run.Request(tmp_path / "r.json", "full", budget=300.0))
    assert found["wall_s"] < 300
    assert len(found["sentinels"]) > 5
    products = [r for r in found["records"] if r["kernel"] == "gemm" and r["dtype"] == "bfloat16"]
    rates = [r["flop"] / r["time_s"]["median"] for r in products]
    machine = machine_of(found, Tables())
    assert max(rates) <= 1.05 * machine.peaks["bfloat16"]
    if found["device"]["cc"] == "9.0":  # Hopper
        largest = max(products, key=lambda r: r["flop"])
        assert largest["flop"] / largest["time_s"]["median"] >= 6e14
    assert [r["kernel"] for r in found["records"] if "host_bound" in r["flags"]] == []
    assert {entry["reason"] for entry in found["skipped"]} <= {"budget", "memory"}
