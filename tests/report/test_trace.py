"""`amped estimate --timeline`: the executed step as a trace that Perfetto and Chrome open, checked against the format."""

import json
from collections import defaultdict
from itertools import pairwise
from pathlib import Path

import pytest

import amped
from amped.base.errors import MappingError
from amped.estimation.execution import executed_step
from amped.report.trace import MOST_SPANS, THREADS, as_trace
from tests.helpers.cli import amped as command
from tests.helpers.stages import of_stage

# What the format asks for by phase: complete events, counters, metadata.
REQUIRED = {"X": {"name", "cat", "ph", "ts", "dur", "pid", "tid", "args"}, "C": {"name", "ph", "ts", "pid", "args"},
            "M": {"name", "ph", "pid", "args"}}  # fmt: skip
ZERO, TWO = {"virtual_pipeline_stages": 1}, {"virtual_pipeline_stages": 2}
CASES = {
    "interleaved": {}, "1f1b": ZERO, "gpipe": ZERO | {"pipeline_schedule": "gpipe"},
    "zero_bubble_h1": ZERO | {"pipeline_schedule": "zero_bubble_h1"},
    "zero_bubble_v": ZERO | {"pipeline_schedule": "zero_bubble_v"},
    "dualpipe_v": ZERO | {"pipeline_schedule": "dualpipe_v"},
    "short ends": TWO | {"number_of_first_stage_layers": 16, "number_of_last_stage_layers": 16},
    "a long start": TWO | {"number_of_first_stage_layers": 24, "number_of_last_stage_layers": 16},
    "a layout": ZERO | {"pipeline_layout": "19,21,22,18"},
    "hand-overs overlap": {"overlap_pipeline_communication": True},
    "one stage": ZERO | {"pipeline_parallel_degree": 1},
    "closed form": {"performance_model": "amped"},
}  # fmt: skip
every_case = pytest.mark.parametrize("given", CASES.values(), ids=CASES)


def traced(**given):
    e = amped.estimate("llama-3-70b", **given)
    return e, executed_step(e)


def of_phase(trace, phase):
    return [event for event in trace["traceEvents"] if event["ph"] == phase]


@every_case
def test_the_trace_of_llama_3_70b_is_of_the_format(given):
    e, step = traced(**given)
    trace = json.loads(as_trace(step, e))
    assert trace["displayTimeUnit"] in ("ms", "ns")
    events = trace["traceEvents"]
    assert {event["ph"] for event in events} == set(REQUIRED)
    for event in events:
        assert set(event) >= REQUIRED[event["ph"]]
        assert event.get("ts", 0) >= 0 <= event.get("dur", 0)
        assert isinstance(event["pid"], int)
        assert isinstance(event.get("tid", 0), int)
    times = [event["ts"] for event in events if event["ph"] != "M"]
    assert times == sorted(times)
    names = {(m["name"], m["pid"], m["tid"]): m["args"] for m in of_phase(trace, "M")}
    stages = range(int(e["pipeline_parallel_degree"]))
    assert [names["process_name", stage, 0]["name"] for stage in stages] == [f"stage {stage}" for stage in stages]
    used = {(x["pid"], x["tid"]) for x in of_phase(trace, "X")}
    assert used <= {(pid, tid) for name, pid, tid in names if name == "thread_name"}
    assert {pid for pid, _ in used} == set(stages)


@every_case
def test_no_stream_does_two_things_at_once_and_the_last_ends_with_the_step(given):
    e, step = traced(**given)
    trace = json.loads(as_trace(step, e))
    streams = defaultdict(list)
    for event in of_phase(trace, "X"):
        streams[event["pid"], event["tid"]].append((event["ts"], event["ts"] + event["dur"]))
    for spans in streams.values():
        assert all(one[1] <= other[0] + 1e-3 for one, other in pairwise(sorted(spans)))  # a nanosecond
    last = max(end for spans in streams.values() for _, end in spans) / 1e6
    assert last == pytest.approx(step.step_time, rel=1e-9)
    assert last == pytest.approx(e["step_time"], rel=0.03)


@every_case
def test_every_micro_batch_passes_every_stage(given):
    e, step = traced(**given)
    runs = [x for x in of_phase(json.loads(as_trace(step, e)), "X") if x["tid"] == THREADS["compute"]]
    passes = 3 if e.choices["pipeline_schedule"].startswith("zero") else 2
    m, chunks = e["number_of_microbatches_per_minibatch"], e["chunks_per_stage"]
    delayed = sum(x["cat"] == "weight_gradient" for x in runs) if e.choices["pipeline_schedule"] == "dualpipe_v" else 0
    assert len(runs) - delayed == passes * m * chunks * e["pipeline_parallel_degree"]
    assert {x["args"]["microbatch"] for x in runs} == set(range(int(m)))
    assert {x["args"]["chunk"] for x in runs} == set(range(int(chunks)))


@every_case
def test_the_counter_peaks_at_the_activations_of_the_estimate(given):
    """Of the fullest stage, which is told by all its memory; without dropout the embedding keeps nothing."""
    e, step = traced(**given)
    peaks = defaultdict(float)
    for event in of_phase(json.loads(as_trace(step, e)), "C"):
        peaks[event["pid"]] = max(peaks[event["pid"]], event["args"]["activation"])
    last = max(peaks)
    place = last if e.fullest_stage == "last" else int(e["fullest_stage_index"])
    assert peaks[place] == pytest.approx(e["activation_bytes"], rel=1e-9)
    if e.choices["pipeline_schedule"] not in ("zero_bubble_v", "dualpipe_v"):
        first = of_stage(e, "first" if last else "last", "activation_bytes")
        assert peaks[0] == pytest.approx(first, rel=1e-9)
        assert peaks[last] == pytest.approx(of_stage(e, "last", "activation_bytes"), rel=1e-9)


@pytest.mark.thorough
def test_of_a_step_of_very_many_passes_the_first_and_the_last_micro_batches_are_shown():
    e, step = traced(batch_size=131072)
    assert e["number_of_microbatches_per_minibatch"] == 4096
    text = as_trace(step, e)
    trace = json.loads(text)
    assert len(text) < 20e6
    spans = [x for x in of_phase(trace, "X") if "microbatch" in x["args"]]
    assert len(spans) <= MOST_SPANS
    shown = {x["args"]["microbatch"] for x in spans}
    half = len(shown) // 2
    assert shown == {*range(half), *range(4096 - half, 4096)}
    assert trace["otherData"]["microbatches_left_out"] == 4096 - 2 * half
    peak = max(c["args"]["activation"] for c in of_phase(trace, "C") if c["pid"] == 0)
    assert peak == pytest.approx(of_stage(e, "first", "activation_bytes"), rel=1e-9)


def test_a_step_of_too_many_passes_is_refused():
    with pytest.raises(MappingError, match="too long to execute"):
        traced(batch_size=16777216, tokens_to_train="1 P")


# --- the command -----------------------------------------------------------------------------------------------------


def test_the_command_writes_the_trace_and_says_how_it_compares(tmp_path: Path):
    path = tmp_path / "trace.json"
    told = command("estimate", "-c", "llama-3-70b", "--timeline", path, folder=tmp_path)
    assert told.returncode == 0, told.stderr
    assert len(json.loads(path.read_text("utf-8"))["traceEvents"]) > 1000
    assert "executed pass by pass, a step takes 17.84 s; by the closed form 17.86 s (+0.15%)" in told.stdout


def test_json_stays_one_object(tmp_path: Path):
    told = command("estimate", "--json", "--timeline", "trace.json", folder=tmp_path)
    assert json.loads(told.stdout)["step_time"] > 0
    assert "timeline written to" in told.stderr


def test_an_existing_file_is_not_overwritten(tmp_path: Path):
    path = tmp_path / "trace.json"
    path.write_text("mine", "utf-8")
    told = command("estimate", "--json", "--timeline", path, folder=tmp_path)
    assert told.returncode == 2
    assert told.stdout == ""
    assert "exists and is not overwritten" in told.stderr
    assert "choose another --timeline" in told.stderr
    assert path.read_text("utf-8") == "mine"


def test_help_says_what_the_option_does(tmp_path: Path):
    told = command("estimate", "--help", folder=tmp_path).stdout
    assert "--timeline" in told
    assert "perfetto" in told
