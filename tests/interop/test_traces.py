"""Traces of runs: of hand-written ones each part is known; of recorded ones what HolisticTraceAnalysis says of them."""

import gzip
import json
import sqlite3
from collections.abc import Callable
from contextlib import closing
from functools import cache
from pathlib import Path

import numpy as np
import pytest

from amped.base.errors import FileError
from amped.interop.traces import json_stream
from amped.interop.traces.classes import class_of, classes
from amped.interop.traces.intervals import both, length, union
from amped.interop.traces.json_stream import values
from amped.interop.traces.kineto import read_kineto
from amped.interop.traces.measuring import classes_of, measured_step
from amped.interop.traces.reading import read_traces
from tests.helpers.cli import amped as command
from tests.helpers.traces import ADD, DATA, GATHER, GEMM, NORM, Written, as_nsight

RECORDED = ("amd_mi250", "cpu_only_rank_34", "sampled_rank_0", "sampled_rank_1")


def recorded(name: str) -> Path:
    return DATA / f"{name}.json.gz"


read_once = cache(read_kineto)


def of_two_steps() -> Written:
    """Two steps and the begin of a third; in a step (ends at 1000): product 200, norm 100, 50 of 150 of a gather hidden."""
    trace = Written()
    for number, begin in enumerate((0.0, 1000.0, 2000.0)):
        trace.step(number, begin, 990)
        trace.kernel(GEMM, begin + 5, begin + 10, 200)
        trace.kernel(GATHER, begin + 6, begin + 160, 150, stream=9)  # runs beside the product for 50
        trace.kernel(NORM, begin + 20, begin + 320, 100)  # launched in time, starts 10 after the gather
        trace.kernel(ADD, begin + 600, begin + 610, 300)  # launched 180 after the norm ended
    return trace


def test_a_step_is_the_sum_of_its_parts(tmp_path: Path) -> None:
    step = measured_step(read_kineto(of_two_steps().written(tmp_path / "t.json")))
    told = {share.name: share.time * 1e6 for share in step.shares}
    assert told == pytest.approx({
        "product": 200, "norm": 100, "elementwise": 300, "all-gather": 100, "the host launches too late": 180 + 95,
        "gaps between kernels that are launched in time": 10 + 10 + 5,
    })  # fmt: skip
    assert (step.step_time, sum(share.time for share in step.shares)) == pytest.approx((1e-3, 1e-3), abs=1e-12)
    assert (step.counted, step.device, step.kernels) == (2, "NVIDIA H100", 4)
    assert [(s.name, s.time * 1e6, s.hidden * 1e6) for s in step.sent] == [
        ("all-gather", pytest.approx(150), pytest.approx(50))
    ]
    assert step.late_fraction == pytest.approx(4 / 8)  # before the product of the next step, and before the sum


def of_passes() -> Written:
    """A step with a product in each pass, one of them computed again, and an optimizer."""
    trace = Written().step(0, 0, 1000)
    trace.host("aten::linear", 0, 50, **{"Sequence number": 1}).kernel(GEMM, 10, 20, 100)
    node = "autograd::engine::evaluate_function: AddmmBackward0"
    trace.host(node, 200, 300, **{"Sequence number": 1, "Fwd thread id": 1})
    trace.host("aten::linear", 210, 50, **{"Sequence number": 2}).kernel(GEMM, 220, 230, 90)
    trace.host("aten::mm", 300, 50).kernel(GEMM, 310, 330, 80)
    trace.host("Optimizer.step#AdamW.step", 600, 100, "user_annotation").kernel(ADD, 610, 620, 70)
    return trace.kernel("Memcpy HtoD (Pinned -> Device)", 750, 760, 30, category="gpu_memcpy")


def test_a_pass_that_is_repeated_is_recomputation(tmp_path: Path) -> None:
    """In a backward pass autograd records only what it computes again: there operators have a number of their own."""
    step = measured_step(read_kineto(of_passes().written(tmp_path / "t.json")))
    told = {(share.name, share.kind): share.time * 1e6 for share in step.shares if share.group != "idle"}
    assert told == pytest.approx(
        {
            ("product", "passes"): 180,
            ("product", "recomputation"): 90,
            ("elementwise", "optimizer"): 70,
            ("host copy", "passes"): 30,
        }
    )


@pytest.mark.parametrize("made", [of_two_steps, of_passes])
def test_nsight_systems_tells_the_same(made: Callable[[], Written], tmp_path: Path) -> None:
    of_torch = measured_step(read_kineto(made().written(tmp_path / "t.json")))
    (trace,) = read_traces([as_nsight(made(), tmp_path / "t.sqlite")])
    step = measured_step(trace)
    assert (step.source, step.device, step.kernels) == ("Nsight Systems", "NVIDIA H100", of_torch.kernels)
    assert [(s.name, s.kind) for s in step.shares] == [(s.name, s.kind) for s in of_torch.shares]
    assert [s.time for s in step.shares] == pytest.approx([s.time for s in of_torch.shares], abs=1e-9)


def test_each_process_of_an_export_is_a_trace(tmp_path: Path) -> None:
    path = as_nsight(of_two_steps(), tmp_path / "t.sqlite")
    with closing(sqlite3.connect(path)) as file:
        for table, column in (("KERNEL", "globalPid"), ("RUNTIME", "globalTid")):
            name = f"CUPTI_ACTIVITY_KIND_{table}"
            file.execute(f"CREATE TABLE other AS SELECT * FROM {name}")
            file.execute(f"UPDATE other SET {column} = {column} + (1 << 24)")
            file.execute(f"INSERT INTO {name} SELECT * FROM other")
            file.execute("DROP TABLE other")
        file.execute("CREATE TABLE other AS SELECT * FROM NVTX_EVENTS")
        file.execute("UPDATE other SET globalTid = globalTid + (1 << 24)")
        file.execute("INSERT INTO NVTX_EVENTS SELECT * FROM other")
        file.commit()
    first, second = map(measured_step, read_traces([path]))
    assert first == second


def test_what_an_operator_says_of_its_kernels(tmp_path: Path) -> None:
    """Products inside attention are attention, a kernel with a foreign name is what its operator is, all-to-alls send."""
    trace = Written().step(0, 0, 1000)
    trace.host("aten::scaled_dot_product_attention", 0, 50).host("aten::bmm", 5, 40).kernel(GEMM, 20, 60, 100)
    trace.host("aten::mm", 100, 50).kernel("nobody_knows_me", 110, 160, 100)
    trace.host("nccl:all_to_all", 200, 50, "user_annotation").kernel("ncclDevKernel_SendRecv(x)", 210, 260, 100)
    trace.kernel("nobody_knows_me_either", 300, 360, 100)
    step = measured_step(read_kineto(trace.written(tmp_path / "t.json")))
    told = {share.name: share.time * 1e6 for share in step.shares if share.group != "idle"}
    assert told == pytest.approx(dict.fromkeys(["attention", "product", "all-to-all", "unassigned"], 100))
    assert step.unassigned == (("nobody_knows_me_either", pytest.approx(1e-4)),)


# What HolisticTraceAnalysis 0.5.0 says of the steps but the last: microseconds of idle time and of computation, and the
# percentage of messages beside computation (get_temporal_breakdown, get_comm_comp_overlap).
OTHERS = {"sampled_rank_0": (321378, 106252, 11.81), "sampled_rank_1": (328671, 135548, 20.05)}


@pytest.mark.parametrize("name", OTHERS)
def test_idle_time_and_overlap_are_those_of_another_tool(name: str) -> None:
    trace = read_once(recorded(name))
    (step,) = trace.steps  # the other one is the last
    in_step = trace.work.launched < step.end
    work, place = trace.work.chosen(in_step), classes_of(trace)[in_step]
    moved = np.isin(work.name, [n for n, text in enumerate(trace.names) if text.startswith(("Memcpy", "Memset"))])
    sends = np.isin(place, [n for n, each in enumerate(classes()) if each.sends])
    sent, computed = (union(work.start[which], work.end[which]) for which in (sends, ~sends & ~moved))
    idle = work.end.max() - work.start.min() - length(union(work.start, work.end))
    told = idle * 1e6, length(computed) * 1e6, 100 * both(sent, computed) / length(sent)
    assert told == pytest.approx(OTHERS[name], rel=0.02)


@pytest.mark.parametrize("name", RECORDED)
def test_kernels_of_recorded_traces_have_a_class(name: str) -> None:
    trace = read_once(recorded(name))
    step = measured_step(trace)
    kernels = sum(share.time for share in step.shares if share.group != "idle")
    assert step.time_of("unassigned") <= 0.05 * kernels
    assert sum(share.time for share in step.shares) == pytest.approx(step.step_time, rel=1e-9)
    assert bool(trace.device) == (name != "cpu_only_rank_34")


def test_ranks_are_told_apart() -> None:
    assert [trace.rank for trace in read_traces([recorded("cpu_only_rank_34"), recorded("amd_mi250")])] == [-1, 34]
    with pytest.raises(FileError, match="process 34 has 2 files"):
        read_traces([recorded("cpu_only_rank_34")] * 2)


def test_a_file_is_read_piece_by_piece(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    content = {
        "a": 12345678,
        "b": {"c": ["]", '"', "\\"]},
        "list": [{"n": n, "t": "é{" * n} for n in range(50)],
        "z": -1.5,
    }
    path = tmp_path / "t.json"
    for window, indent in ((7, None), (64, 1), (1 << 20, 2)):
        monkeypatch.setattr(json_stream, "WINDOW", window)
        path.write_text(json.dumps(content, indent=indent, ensure_ascii=False), encoding="utf-8")
        read = [*values(path, "list")]
        assert [value for name, value in read if name == "list"] == content["list"]
        assert {name: value for name, value in read if name != "list"} == {
            name: value for name, value in content.items() if name != "list"
        }


def whole() -> bytes:
    return gzip.decompress(recorded("amd_mi250").read_bytes())


BAD = {
    "cut": (lambda: whole()[:20000], "ends in the middle"),
    "cut gzip": (lambda: recorded("amd_mi250").read_bytes()[:3000], "ends in the middle"),
    "a text": (lambda: b"step: 1 loss: 7.1", "is no JSON object"),
    "empty": (lambda: b"", "is no JSON object"),
    "foreign": (lambda: b'{"model_type": "llama"}', "has no trace events"),
    "no events": (lambda: b'{"traceEvents": []}', "has no trace events"),
    "no steps": (lambda: whole().replace(b"ProfilerStep", b"Profiler").replace(b"Optimizer.step", b"x"), "no step is marked"),
    "no kernels": (lambda: b'{"traceEvents": [{"ph": "X", "cat": "user_annotation", "name": "ProfilerStep#1", "ts": 1, "dur": 2, "pid": 1, "tid": 1}]}',
                   "neither kernels nor operators"),
    "damaged": (lambda: whole().replace(b'"ts": 4203669603454.206', b'"ts": "soon"'), "is damaged"),
    "no value": (lambda: b'{"traceEvents" [1]}', "no value follows"),
}  # fmt: skip


def of_tables(*statements: str) -> bytes:
    """A SQLite file with these tables."""
    with closing(sqlite3.connect(":memory:")) as file:
        for statement in statements:
            file.execute(statement)
        return file.serialize()


STRINGS = "CREATE TABLE StringIds (id, value)"
BAD_TABLES = {
    "foreign": (lambda: of_tables("CREATE TABLE songs (name)"), "is no export of Nsight Systems"),
    "no kernels": (lambda: of_tables(STRINGS), "has no kernels"),
    "nothing but a beginning": (lambda: of_tables(STRINGS)[:40], "is a damaged SQLite file"),
}


@pytest.mark.parametrize("name", BAD_TABLES)
def test_a_bad_export_is_told_in_a_line(name: str, tmp_path: Path) -> None:
    content, said = BAD_TABLES[name]
    path = tmp_path / "t.sqlite"
    path.write_bytes(content())
    with pytest.raises(FileError, match=said) as error:
        read_traces([path])
    assert error.value.file == str(path)
    assert "\n" not in error.value.problems[0].what


def test_a_cut_export_is_told(tmp_path: Path) -> None:
    path = as_nsight(of_two_steps(), tmp_path / "t.sqlite")
    path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])
    with pytest.raises(FileError, match="is a damaged SQLite file"):
        read_traces([path])


@pytest.mark.parametrize("name", BAD)
def test_a_bad_file_is_told_in_a_line(name: str, tmp_path: Path) -> None:
    content, said = BAD[name]
    path = tmp_path / "t.json"
    path.write_bytes(content())
    with pytest.raises(FileError, match=said) as error:
        read_kineto(path)
    assert error.value.file == str(path)
    assert len(error.value.problems) == 1
    assert "\n" not in error.value.problems[0].what


def test_parts_stand_beside_those_of_the_estimate(tmp_path: Path) -> None:
    path = of_two_steps().written(tmp_path / "t.json.gz")
    answer = json.loads(command("why", "default", "--trace", str(path), "--json", folder=tmp_path).stdout)
    gaps = answer["gaps"]
    assert sum(gap["measured"] for gap in gaps) == pytest.approx(answer["measured_step_time"], rel=1e-12)
    assert sum(gap["estimated"] for gap in gaps) == pytest.approx(answer["step_time"], rel=1e-9)
    assert gaps[0]["name"] == "idle"
    assert "50 % of the kernels too late" in gaps[0]["closes"]


def test_every_class_has_a_name_and_every_pattern_is_used() -> None:
    assert classes()[class_of("nobody knows me")].name == "unassigned"
    assert classes()[class_of("void fbgemm_gpu::permute_2D_lengths_kernel<int>(int)")].name == "gather and sort"


def test_kernels_labelled_by_hand_have_their_class() -> None:
    """Names of recorded traces, and of kernels of transformers as their sources have them, labelled before any was compared."""
    rows = [line.split("\t") for line in (DATA / "labelled_kernels.tsv").read_text(encoding="utf-8").splitlines()]
    right = [label for label, name in rows if classes()[class_of(name)].name == label]
    assert (len(rows), len(right) >= 0.98 * len(rows)) == (328, True)
