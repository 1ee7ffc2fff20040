"""pretrain_gpt.py would start with what amped writes: each script is run with a program that prints its words, which are held
against `tests/data/megatron_arguments.json`, the table of what that program takes, demands and refuses.

megatron-core's wheel has no `megatron/training`, so that the program itself cannot be asked.
"""

import json
import subprocess
from argparse import ArgumentParser
from functools import cache
from typing import Any, Literal, get_args, get_origin, get_type_hints

import pytest

from amped.configuring.layout_text import Layout
from amped.configuring.scenario import read_scenario
from amped.estimation.estimation import estimated
from amped.interop.exporting import TARGETS
from amped.interop.fields import table
from tests.helpers.interop import drawn_estimates
from tests.helpers.places import ROOT

STAND_INS = (
    'scontrol() { echo head; }; srun() { "$@"; }; torchrun() { printf "%s\\0" "$CUDA_DEVICE_MAX_CONNECTIONS" "$@"; }\n'
)


@cache
def facts() -> dict[str, Any]:
    found: dict[str, Any] = json.loads((ROOT / "tests/data/megatron_arguments.json").read_text("utf-8"))
    return found


class StoppedError(Exception):
    """The program would stop."""


class Parser(ArgumentParser):
    def error(self, message: str) -> Any:
        raise StoppedError(message)


TYPES = {"int": int, "float": float, "pair": lambda text: tuple(map(int, text.split(","))), "pattern": str, "layout": str, "field": str,
         "words": str}  # fmt: skip


def parser() -> Parser:
    made = Parser(allow_abbrev=False)
    for name, row in facts()["flags"].items():
        flag = row.get("flag", f"--{name.replace('_', '-')}")
        if row.get("type") in ("switch", "off"):
            made.add_argument(flag, dest=name, action="store_false" if row["type"] == "off" else "store_true")
        else:
            many = {"nargs": "+"} if row.get("type") == "words" else {}
            made.add_argument(flag, dest=name, default=row.get("default"), choices=row.get("choices"),
                              type=TYPES.get(row.get("type"), str), **many)  # fmt: skip
    return made


def started(script: str) -> dict[str, Any]:
    """The arguments that a script gives to the program.

    Raises:
        StoppedError: if the program would stop.
    """
    asked = subprocess.run(["bash", "-uc", STAND_INS + script], capture_output=True, text=True, check=False,
                           env={"PATH": "/usr/bin:/bin", "HEAD": "head", "CUDA_DEVICE_MAX_CONNECTIONS": "", "SLURM_JOB_ID": "7", "SLURM_JOB_NODELIST": "head"})  # fmt: skip
    assert asked.returncode == 0, asked.stderr
    connections, *words = asked.stdout.split("\0")[:-1]
    start = words.index("pretrain_gpt.py")
    launch = dict(zip(words[:start:2], words[1:start:2], strict=True))
    arguments = vars(parser().parse_args(words[start + 1 :]))
    layout, stages = arguments["pipeline_model_parallel_layout"], arguments["pipeline_model_parallel_size"]
    chunks = len(Layout(layout).chunks) if layout else stages * (arguments["num_virtual_stages_per_pipeline_rank"] or 1)
    return arguments | {
        "world_size": int(launch["--nnodes"]) * int(launch["--nproc-per-node"]), "CUDA_DEVICE_MAX_CONNECTIONS": connections,
        "chunks_of_all_stages": chunks, "chunks_of_a_stage": chunks // stages,
    }  # fmt: skip


def broken(script: str) -> list[str]:
    """What the program would refuse of a script."""
    try:
        arguments = started(script)
    except StoppedError as error:
        return [str(error)]
    lacking = [f"needs {name}" for name in facts()["needed"] if arguments[name] is None]
    space = {"__builtins__": {}}
    rows = [row for row in facts()["conditions"] if eval(row.get("where", "True"), space, arguments)]
    return lacking or [row["why"] for row in rows if not eval(row["holds"], space, arguments)]


ASKED: dict[str, dict[str, Any]] = {
    "dense": {"name": "llama-3-70b"},
    "mixture": {"name": "mixtral-8x7b"},
    "latent attention, further tokens": {"name": "minimal", "model": "DeepSeek V3"},
    "windows": {"name": "minimal", "model": "Gemma 3 12B"},
    "sinks": {"name": "minimal", "model": "gpt-oss-20b"},
    "learned positions": {"name": "minimal", "model": "GPT-3 175B"},
    "a rack of hosts": {"name": "llama-3-70b", "system": "GB200 NVL72", "number_of_accelerators": 256},
    "uneven stages": {"name": "megatron-145.6B", "pipeline_layout": "9,10*5,11,10", "virtual_pipeline_stages": 1},
    "layers that do not divide": {"name": "minimal", "model": "Llama 3 405B", "system": "DGX H100", "number_of_accelerators": 2048, "pipeline_parallel_degree": 16, "tensor_parallel_degree": 8},
    "first and last stage": {"name": "llama-3-70b", "number_of_first_stage_layers": 19, "number_of_last_stage_layers": 19, "virtual_pipeline_stages": 1},
    "context": {"name": "llama-3-70b", "context_parallel_degree": 2, "context_parallel_kind": "all_gather"},
    "two stages in chunks": {"name": "llama-3-70b", "pipeline_parallel_degree": 2, "virtual_pipeline_stages": 2, "overlap_pipeline_communication": False},
    "fp8": {"name": "minimal", "matrix_precision": "fp8"},
    "fp8 of mixtures": {"name": "mixtral-8x7b", "matrix_precision": "fp8", "fp8_scaling": "blocks"},
    "fp16 of mixtures": {"name": "mixtral-8x7b", "matrix_precision": "fp16"},
    "fp32": {"name": "minimal", "matrix_precision": "fp32"},
    "whole layers": {"name": "minimal", "activation_recomputation": "full"},
    "some layers": {"name": "minimal", "activation_recomputation": "block", "number_of_recomputed_layers": 2},
    "modules": {"name": "minimal", "activation_recomputation": "selective", "norm_recomputation": True},
    "offload": {"name": "minimal", "zero_stage": 1, "optimizer_offload": 0.5},
    "offload of all": {"name": "minimal", "zero_stage": 0, "optimizer_offload": 1},
    "narrow states": {"name": "minimal", "zero_stage": 0, "optimizer_state_precision": 8},
    "FSDP": {"name": "minimal", "zero_stage": 3},
    "FSDP beside tensors": {"name": "minimal", "zero_stage": 3, "tensor_parallel_degree": 2},
    "another optimizer": {"name": "minimal", "optimizer": "sgd", "optimizer_state_precision": 16, "zero_stage": 1},
    "a short training": {"name": "minimal", "tokens_to_train": 1},
}  # fmt: skip


@pytest.mark.parametrize("form", ["megatron", "slurm"])
@pytest.mark.parametrize("name", ASKED)
def test_the_program_starts(name: str, form: str) -> None:
    changed = dict(ASKED[name])
    assert broken(TARGETS[form].write(estimated(read_scenario(changed.pop("name"), changed)))) == []


def test_the_program_starts_with_drawn_mappings() -> None:
    scripts = {each.scenario.title: TARGETS["megatron"].write(each) for each in drawn_estimates(40, "arguments")}
    wrong = [(problems, script) for script in scripts.values() if (problems := broken(script))]
    assert wrong == []


LEFT_OUT = {
    "--lr 1e-4": "needs lr",
    "--train-iters": "needs train_iters",
    "--max-position-embeddings": "needs max_position_embeddings",
    "--mock-data": "data are random where no path is told",
    "export CUDA": "before Blackwell, messages start in order",
}
CHANGED = {
    ("--micro-batch-size 1", "--micro-batch-size one"): "argument --micro-batch-size: invalid int value: 'one'",
    ("--micro-batch-size 1 ", "--micro-batch-size 7 "): "the batch is whole micro-batches of every replica",
    ("--bf16", "--bf17"): "unrecognized arguments: --bf17",
    ("--normalization RMSNorm", "--normalization rms"): "argument --normalization: invalid choice: 'rms'",
    ("--seq-length 8192", "--seq-length 16384"): "positions reach to the end of a sequence",
    ("--num-layers 80", "--num-layers 80 --recompute-granularity full"): "whole layers are computed again by a method and a number",
    ("--use-distributed-optimizer", "--overlap-param-gather"): "weights are gathered beside computation only where",
    ("--tensor-model-parallel-size 8", "--tensor-model-parallel-size 7"): "the accelerators are whole replicas",
}  # fmt: skip


@pytest.mark.parametrize(("old", "new", "told"), [
    *((line, None, told) for line, told in LEFT_OUT.items()), *((*pair, told) for pair, told in CHANGED.items()),
])  # fmt: skip
def test_a_broken_line_is_refused(old: str, new: str | None, told: str) -> None:
    script = TARGETS["megatron"].write(estimated(read_scenario("llama-3-70b")))
    assert old in script
    lines = script.splitlines() if new is None else script.replace(old, new).splitlines()
    problems = broken("\n".join(line for line in lines if new is not None or old not in line))
    assert any(problem.startswith(told) for problem in problems), problems


def test_the_facts_are_those_of_arguments_that_amped_knows() -> None:
    demanded = {row["flag"].split()[0][2:].replace("-", "_") for row in table("megatron")["of_the_program"]}
    assert set(facts()["flags"]) <= {*table("megatron")["arguments"], *demanded}
    assert set(facts()["needed"]) <= set(facts()["flags"])


def test_the_choices_are_those_of_megatron_core() -> None:
    """Where megatron-core 0.16.1 says the choices of a field too, they are the same."""
    config = pytest.importorskip("megatron.core.transformer", reason="needs megatron-core, which .ci/run installs")
    kinds = get_type_hints(config.TransformerConfig)
    told = {name: set(get_args(kinds[name])) for name in facts()["flags"] if get_origin(kinds.get(name)) is Literal}
    assert told
    assert {name: set(facts()["flags"][name].get("choices", ())) for name in told} == told
