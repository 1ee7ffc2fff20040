"""Memory over time: from the order of passes, its peak is that of the closed form; PyTorch's own viewer reads the snapshot."""

import json
import math
import pickle
from pathlib import Path

import pytest

import amped
from amped.estimation.execution import executed_step
from amped.estimation.memory_over_time import MemoryOverTime, memory_over_time
from amped.report.memory_snapshot import as_snapshot
from amped.report.trace import as_trace
from tests.helpers.cli import amped as command

ZERO = {"virtual_pipeline_stages": 1}
CASES = {
    "interleaved": {}, "1f1b": ZERO, "recomputed": ZERO | {"recompute": "full"},
    **{name: ZERO | {"pipeline_schedule": name} for name in ("gpipe", "zero_bubble_h1", "zero_bubble_v", "dualpipe_v")},
    "a layout": ZERO | {"pipeline_layout": "19,21,22,18"}, "one stage": ZERO | {"pipeline_parallel_degree": 1},
    "closed form": {"performance_model": "amped"},
}  # fmt: skip


def memory_of(**given: object) -> tuple[amped.Estimate, MemoryOverTime]:
    e = amped.estimate("llama-3-70b", **given)
    return e, memory_over_time(e, executed_step(e))


@pytest.mark.parametrize("given", CASES.values(), ids=CASES)
def test_the_peak_is_that_of_the_closed_form(given: dict[str, object]) -> None:
    e, memory = memory_of(**given)
    assert memory.peak.bytes == pytest.approx(e["memory_per_accelerator_bytes"], rel=0.01)
    assert math.fsum(memory.peak.by_kind.values()) == pytest.approx(memory.peak.bytes)


def test_what_is_taken_is_given_back_but_for_states() -> None:
    _, memory = memory_of()
    end = memory.step.timeline.makespan
    for stage in range(len(memory.stages)):
        held = memory.held(stage, [end])
        assert held["activation"] == held["working"] == pytest.approx([0.0], abs=1e-3)
        assert held["weight"][0] > 0


def replayed(entries: list[dict[str, object]]) -> int:
    """The most bytes that a trace of a snapshot holds."""
    held = most = 0
    for entry in entries:
        size = int(entry["size"])  # type: ignore[call-overload]
        held += {"alloc": size, "free_completed": -size}.get(str(entry["action"]), 0)
        most = max(most, held)
    return most


def test_the_snapshot_holds_the_peak_and_pytorch_reads_it() -> None:
    _, memory = memory_of()
    snapshot = pickle.loads(as_snapshot(memory))
    assert max(map(replayed, snapshot["device_traces"])) == pytest.approx(memory.peak.bytes, rel=1e-6)
    viewer = pytest.importorskip("torch.cuda._memory_viz", reason="needs the extra torch")
    assert "Device 0" in viewer.trace(snapshot)
    assert f"segments: {len(snapshot['segments'])}" in viewer.segsum(snapshot)
    assert "Active Memory Timeline" in viewer.trace_plot(snapshot)


def test_the_trace_counts_all_memory() -> None:
    e, memory = memory_of()
    counters = [event for event in json.loads(as_trace(memory.step, e))["traceEvents"] if event["name"] == "memory"]
    assert max(sum(event["args"].values()) for event in counters) == pytest.approx(memory.peak.bytes)


def test_the_peak_is_told(tmp_path: Path) -> None:
    told = command("estimate", "llama-3-70b", "--snapshot", "memory.pickle", folder=tmp_path).stdout
    assert "holds most" in " ".join(told.split())
    assert pickle.loads((tmp_path / "memory.pickle").read_bytes())["device_traces"]
