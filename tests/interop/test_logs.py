"""Logs of runs: lines as frameworks print them, with steps that a person reads off; none is a real run."""

import json
import re
from collections.abc import Callable
from pathlib import Path

import pytest

from amped.base.errors import AmpedError, FileError
from amped.interop.logs.reading import formats, read_log
from amped.interop.logs.steps import Measured, measured
from amped.validation.measurements import read_measurements
from tests.helpers.cli import amped as command

GIB = 2**30
BATCH, TOKENS = 64.0, 8192.0
# For each framework, the line of a step that takes so many seconds, as its source prints it.
LINES: dict[str, Callable[[int, float], str]] = {
    "Megatron-LM": lambda n, s: (
        f" [2026-01-01 10:00:00] iteration {n:8d}/     100 | consumed samples: {n * 64:12d} | elapsed time per iteration (ms): {s * 1000:.1f} |"
        " throughput per GPU (TFLOP/s/GPU): 400.0 | learning rate: 3.000000E-04 | global batch size:    64 | lm loss: 7.1E+00 | loss scale: 1.0 |"
    ),
    "NeMo": lambda n, s: (
        f"Training epoch 0, iteration {n}/99 | lr: 1.649e-06 | global_batch_size: 64 | global_step: {n} | max_memory_reserved: {40 * GIB} |"
        f" max_memory_allocated: {30 * GIB} | reduced_train_loss: 11.97 | train_step_timing in s: {s:.3f} | consumed_samples: {n * 64}"
    ),
    "MaxText": lambda n, s: f"completed step: {n}, seconds: {s:.3f}, TFLOP/s/device: 300.000, Tokens/s/device: 3679.158, total_weights: 524288, loss: 10.565",
    "torchtitan": lambda n, s: (
        f"[titan] 2026-01-01 10:00:00,000 - root - INFO - \x1b[31mstep: {n:2}  \x1b[32mloss:  7.10000  \x1b[38;2;180;60;0mgrad_norm:  1.2000  "
        f"\x1b[36mmemory: 40.00GiB(50.00%)  \x1b[34mtps: {round(TOKENS / s):,}  \x1b[36mtflops: 300.00  \x1b[35mmfu: 30.00%\x1b[39m"
    ),
    "DeepSpeed": lambda n, s: (
        f"[2026-01-01 10:00:00,000] [INFO] [timer.py:260:stop] epoch=0/micro_step={n * 4}/global_step={n}, RunningAvgSamplesPerSec={BATCH / s}, "
        f"CurrSamplesPerSec={BATCH / s}, MemAllocated=4.32GB, MaxMemAllocated=40.0GB"
    ),
    "torchtune": lambda n, s: f"Step {n} | loss:1.25 lr:2e-05 tokens_per_second_per_gpu:{TOKENS / s:.4f} peak_memory_reserved:40.0 ",
}  # fmt: skip
STEPS = [
    9.0,
    4.0,
    *[2.0] * 9,
    2.2,
    1.9,
    *[2.0] * 4,
    8.0,
    *[2.0] * 4,
]  # the first compile, and the 18th writes a checkpoint


def written(folder: Path, name: str, steps: list[float] = STEPS, more: str = "") -> Path:
    lines = [LINES[name](number, seconds) for number, seconds in enumerate(steps, 1)]
    path = folder / "run.log"
    path.write_text(
        "\n".join(["loading the data", *lines[:3], "some library says something", *lines[3:]]) + "\n" + more
    )
    return path


def read(path: Path) -> Measured:
    return measured(read_log(path), path, BATCH, TOKENS)


@pytest.mark.parametrize("name", LINES)
def test_the_step_of_each_framework_is_what_a_person_reads(name: str, tmp_path: Path) -> None:
    run = read(written(tmp_path, name))
    assert run.framework == name
    assert run.step_time == pytest.approx(2.0, rel=1e-3)
    assert (run.warm_up, run.counted) == (2, len(STEPS) - 3)
    assert run.shortest == pytest.approx(2.0, rel=1e-3)
    ((left),) = run.left_out
    assert (left.number, left.line) == (18, 20)  # one line stands before the steps, and one between
    assert left.seconds == pytest.approx(8.0, rel=1e-3)
    says_memory = name in ("NeMo", "torchtitan", "DeepSpeed", "torchtune")
    assert run.memory_bytes == (40 * GIB if says_memory else 0.0)


def test_every_format_is_written_above() -> None:
    assert {known.name for known in formats()} == {*LINES, "transformers and TRL"}


def test_a_progress_bar_is_read_over_tens_of_seconds_and_the_bar_of_an_evaluation_is_not(tmp_path: Path) -> None:
    bars = [f"{n:3d}%|██        | {n}/100 [{2 * n // 60:02d}:{2 * n % 60:02d}<03:00,  2.00s/it]" for n in range(101)]
    evaluation = " 50%|█████     | 5/10 [00:50<00:50, 10.00s/it]"
    path = tmp_path / "run.log"
    path.write_text("\r".join([*bars[:50], evaluation, *bars[50:]]) + "\n{'loss': 1.2, 'epoch': 0.1}\n")
    run = read(path)
    assert run.framework == "transformers and TRL"
    assert run.step_time == pytest.approx(2.0)
    assert any("the clock of transformers and TRL, over ten seconds" in notice for notice in run.notices)


def tensorboard(steps: list[float]) -> str:
    """The export of one scalar: the time since 1970 at which each step was written."""
    ends = [1_750_000_000 + sum(steps[:n]) for n in range(1, len(steps) + 1)]
    return "Wall time,Step,Value\n" + "".join(f"{end:.4f},{n},7.1\n" for n, end in enumerate(ends, 1))


def chart(steps: list[float]) -> str:
    """The export of a chart of Weights & Biases: one metric of one run, with its range."""
    head = '"Step","big-sky-7 - iteration-time","big-sky-7 - iteration-time__MIN","big-sky-7 - iteration-time__MAX"\n'
    return head + "".join(f'"{n}","{s}","{s}","{s}"\n' for n, s in enumerate(steps, 1))


def history(steps: list[float]) -> str:
    """The history of a run of Weights & Biases: a line without a pace is of an evaluation."""
    lines = [f"{n},{n},{2.0 * n:.3f},{round(TOKENS / s)},40.0,\n" for n, s in enumerate(steps, 1)]
    return ",_step,_runtime,throughput(tps),memory/max_reserved(GiB),eval/loss\n" + "".join(
        [*lines[:9], "9,9,20.0,,,1.5\n", *lines[9:]]
    )


@pytest.mark.parametrize(("text", "name"), [(chart(STEPS), "Weights & Biases"), (history(STEPS), "Weights & Biases"), (tensorboard([2.0] * 40), "TensorBoard")])  # fmt: skip
def test_exported_tables_are_logs(text: str, name: str, tmp_path: Path) -> None:
    path = tmp_path / "run.csv"
    path.write_text(text)
    run = read(path)
    assert run.framework == name
    assert run.step_time == pytest.approx(2.0, rel=1e-3)
    assert run.memory_bytes == (40 * GIB if "memory" in text else 0.0)
    assert [(step.number, step.line) for step in run.left_out] == {
        chart(STEPS): [(18, 19)],
        history(STEPS): [(18, 20)],
    }.get(text, [])


@pytest.mark.parametrize(
    ("text", "told"),
    [
        (chart(STEPS).replace('"10","2.0"', '"10","2.0x"'), "line 11: the step of Weights & Biases in it is damaged"),
        (chart(STEPS).replace('"10","2.0","2.0"', '"10","2.0"'), "line 11"),
        (
            "Step,a - iteration-time,b - iteration-time\n1,2.0,2.0\n",
            "several runs: a - iteration-time, b - iteration-time",
        ),
        ("Wall time,Step,Value\n", "no line tells of a training step"),
    ],
)
def test_damaged_tables_and_those_of_several_runs_are_refused(text: str, told: str, tmp_path: Path) -> None:
    path = tmp_path / "run.csv"
    path.write_text(text)
    with pytest.raises(FileError, match=re.escape(told)):
        read_log(path)


def test_a_table_of_runs_takes_logs_and_their_arguments(tmp_path: Path) -> None:
    """The row says on what it ran, the log the rest; what the two say differently is refused with its line."""
    path = with_arguments(tmp_path)
    table = tmp_path / "runs.csv"
    table.write_text(f"id,system,log\nmine,DGX H100,{path.name}\n")
    (run,) = read_measurements(table)
    assert run.reason == ""
    assert run.row.measured["step_time"] == pytest.approx(2.0)
    assert (run.settings["layers"], run.settings["tensor_parallel_degree"], run.settings["system"]) == (
        8,
        2,
        "DGX H100",
    )
    (alone,) = read_measurements(path)
    assert "on what (accelerator or system)" in alone.reason
    table.write_text(f"id,system,log,gbs\nmine,DGX H100,{path.name},128\n")
    with pytest.raises(AmpedError, match=r"line 2, column 'log'.*global batch of 64, and the row 128"):
        read_measurements(table)
    (tmp_path / "hf.log").write_text("\n".join(LINES["DeepSpeed"](n, s) for n, s in enumerate(STEPS, 1)))
    table.write_text("id,model,system,gpus,log\nmine,Llama 3 8B,DGX H100,8,hf.log\n")
    with pytest.raises(AmpedError, match="no batch_size"):
        read_measurements(table)
    table.write_text("id,model,system,gpus,gbs,log\nmine,Llama 3 8B,DGX H100,8,64,hf.log\n")
    (run,) = read_measurements(table)
    assert run.row.measured["step_time"] == pytest.approx(2.0)
    assert (run.row.measured["memory_per_accelerator_bytes"], run.row.texts["memory_reading"]) == (
        40 * GIB,
        "allocated",
    )


def test_memory_that_megatron_reports_is_the_most_of_all_ranks(tmp_path: Path) -> None:
    ranks = "".join(
        f"[Rank {rank}] (after 2 iterations) memory (MB) | allocated: 100.0 | max allocated: 200.0 | reserved: 300.0 | max reserved: {size}\n"
        for rank, size in ((0, 1024.0), (8, 2048.0))
    )
    assert read(written(tmp_path, "Megatron-LM", more=ranks)).memory_bytes == 2 * GIB


def test_a_restart_and_another_batch_are_told(tmp_path: Path) -> None:
    again = "".join(LINES["Megatron-LM"](number, 2.0) + "\n" for number in (10, 11, 12))
    path = written(tmp_path, "Megatron-LM", more=again)
    notices = measured(read_log(path), path, 128.0, TOKENS).notices
    assert any("starts again once (first in line 25)" in notice for notice in notices)
    assert any("global batch of 64, and the config 128" in notice for notice in notices)


def test_a_log_that_is_cut_in_a_step_counts_without_it(tmp_path: Path) -> None:
    path = written(tmp_path, "Megatron-LM", more=LINES["Megatron-LM"](24, 2.0)[:120])
    run = read(path)
    assert run.step_time == pytest.approx(2.0)
    assert any("ends in the middle of a step (line 25)" in notice for notice in run.notices)


@pytest.mark.parametrize(
    ("text", "line", "told"),
    [
        ("a shopping list\nmilk\n", "line 1", "no line tells of a training step"),
        ("", "line 1", "no line tells of a training step"),
        (LINES["MaxText"](1, 2.0) + "\n\0\0\n", "line 2", "no text"),
        (f"{LINES['NeMo'](1, 2.0)}\n{LINES['NeMo'](2, 2.0).replace('2.000', '2.0x0')}\n{LINES['NeMo'](3, 2.0)}\n", "line 2", "damaged"),
    ],
)  # fmt: skip
def test_foreign_and_damaged_files_are_refused_with_their_line(text: str, line: str, told: str, tmp_path: Path) -> None:
    path = tmp_path / "run.log"
    path.write_text(text)
    with pytest.raises(FileError) as refused:
        read_log(path)
    assert told in str(refused.value)
    assert line in str(refused.value)
    assert str(path) in str(refused.value)


def test_too_few_steps_are_no_measure(tmp_path: Path) -> None:
    with pytest.raises(FileError, match="at least 5 steps"):
        read(written(tmp_path, "MaxText", [9.0, 2.0, 2.0]))


def test_why_takes_the_step_of_a_log(tmp_path: Path) -> None:
    path = written(tmp_path, "MaxText", [60.0 + number % 3 for number in range(20)])
    told = json.loads(command("why", "minimal", "--log", path, "--json", folder=tmp_path).stdout)
    assert told["measured_step_time"] == told["log"]["step_time"] == 61.0
    screen = command("why", "minimal", "--log", path, folder=tmp_path).stdout
    assert "MaxText's log: 61 s a step" in screen
    assert "Measured: 61 s a step" in screen
    refused = command("why", "--log", path, folder=tmp_path)
    assert "prints no arguments that amped reads" in refused.stderr


def with_arguments(folder: Path) -> Path:
    """A log of a network of 8 layers on 8 accelerators, as Megatron-LM prints its arguments."""
    arguments = {
        "num_layers": 8, "hidden_size": 2048, "num_attention_heads": 16, "ffn_hidden_size": 8192, "seq_length": 2048,
        "max_position_embeddings": 2048, "padded_vocab_size": 32000, "micro_batch_size": 2, "global_batch_size": 64,
        "tensor_model_parallel_size": 2, "pipeline_model_parallel_size": 1, "world_size": 8, "data_parallel_size": 4,
        "train_iters": 100, "bf16": True, "swiglu": False, "use_flash_attn": True, "add_bias_linear": True,
    }  # fmt: skip
    path = written(folder, "Megatron-LM")
    block = "".join(f"  {name} {'.' * (48 - len(name))} {value}\n" for name, value in arguments.items())
    path.write_text(f"------------------------ arguments ------------------------\n{block}" + path.read_text())
    return path


def test_the_arguments_that_megatron_prints_are_the_config_of_its_log(tmp_path: Path) -> None:
    path = with_arguments(tmp_path)
    answered = command("why", "--log", path, "--system", "DGX H100", "--json", folder=tmp_path)
    told = json.loads(answered.stdout)
    assert told["measured_step_time"] == pytest.approx(2.0)
    assert "the configuration is that of the arguments in" in answered.stderr
    named = ("why", "--model", "Llama 3 8B", "--system", "DGX H100", "--gpus", "8", "--log", path)
    assert "the configuration is that of" not in command(*named, folder=tmp_path).stderr
