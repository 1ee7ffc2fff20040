"""Command lines of every verb: its own options, with values that fit and values that do not."""

import json
from collections.abc import Mapping
from functools import cache
from random import Random
from typing import Any

import typer

from amped.base.files import shipped_text
from amped.cli.app import VERBS, built
from amped.configuring.config import shipped_configs
from amped.tables.table_files import ACCELERATORS, KERNELS, LINKS, MODELS, SHIPPED, SOFTWARE, SYSTEMS
from tests.campaigns.commands import LACKING, done, folder, seen_of_command
from tests.campaigns.records import Case, Kind, Seen
from tests.campaigns.values import NASTY, all_names, drawn_value, examples, inputs, row_of
from tests.helpers.explore import SMALL

# The verb that serves until somebody stops it.
SERVE = {"app"}
# Verbs that take seconds and more: they are drawn a fifth as often. What measures runs minutes.
SLOW = {"validate", "calibrate", "recommend", "report", "scenario-summary", "explore", "bench", "layouts", "memory"}
MEASURE = {"bench", "layouts", "memory"}
# A search of what many accelerators may do takes as long as the user allows it.
FEW = {
    "--gpus": ("2", "4", "8", "16"),
    "--nodes": ("1", "2"),
    "--workers": ("1",),
    "--executor": ("serial",),
    "--top": ("1", "3", "0", "-1"),
}
# What compares with all measurements, or fits to them, takes as long as there are measurements: it gets a table of one.
OF_MEASUREMENTS = {"validate", "calibrate"}
# Of so many lines, one runs in a process of its own.
APART = 40
FILES = {"small.json": json.dumps(SMALL), "damaged.json": '{"a":', "empty.json": "", "form.py": "x = 1\n",
         "mine.csv": shipped_text("lookup_tables", "measurements_template.csv")}  # fmt: skip
WORDS: Mapping[str, tuple[str, ...]] = {
    "--space": ("quick", "default", "degrees", "memory"), "--objective": ("step_time", "cost", "memory", "MFU", "training_time"),
    "--where": ("memory < 70 GB", "tp <= 8 and pp == 1", "tp <", "x" * 1001), "--pareto": ("step_time,memory", "step_time", "a,b"),
    "--vary": ("tp=1,2,4", "gbs=8:64:x2", "system=DGX A100,DGX H100", "tp=", "nobody=1,2"), "--deadline": ("30 days", "1 s", "never"),
    "--budget": ("2 million USD", "1 dollar", "much"), "--for": ("megatron", "nobody"), "--must": ("fit", "modelled", "win"),
    "--shard": ("1/2", "2/2", "3/2", "0/1", "a/b"), "--resume": ("found.jsonl", "small.json", "."), "--precision": ("bf16", "fp8", "mxfp8", "int3"),
    "--recompute": ("none", "full", "selective", "block", "some"), "--of": ("step_time", "cost", "nobody"), "--kind": ("mapping", "system", "x"),
    "--format": ("table", "csv", "json", "parquet", "png", "svg", "xls"), "--plot": ("auto", "parts"), "--along": ("tp", "tp,pp", "nobody"),
    "--output": ("out.json", "out.csv", "out.txt", ".", "new/out.csv", "small.json"), "--output-dir": ("out", "small.json"),
    "--timeline": ("trace.json", "small.json"), "--lookup-tables": (".", "nowhere", "small.json"), "--formulas": ("form.py", "nowhere.py"),
    "--table": ("mine.csv", "small.json", "nowhere.csv"), "--kernels": (".", "nowhere"), "--save-best": ("best",), "--scheduler": ("tcp://127.0.0.1:9", "x"),
    "--by": ("source", "model", "x"), "--leave-out": ("stack", "x"), "--step": ("0.01", "0", "2"), "--each": ("tp", "nobody"),
}  # fmt: skip


@cache
def options_of(verb: str) -> tuple[tuple[tuple[str, ...], bool], ...]:
    """The spellings of each option of a verb, and whether it takes a value; and each argument, which has no spelling."""
    group: Any = typer.main.get_command(built(verb))
    told = [
        (p.opts + p.secondary_opts if p.param_type_name == "option" else [], not getattr(p, "is_flag", False))
        for p in group.commands[verb].params
    ]
    return tuple((tuple(opts), takes) for opts, takes in told)


def draw_line(random: Random) -> Case:
    verb = random.choice(verbs())
    while verb in SLOW and random.random() < 0.8:
        verb = random.choice(verbs())
    words = [verb]
    if verb in MEASURE:
        return {
            "words": [*words, *random.choice(([], ["--help"], ["nobody"], ["run", "--help"], ["bench", "--nobody"]))]
        }
    options = options_of(verb)
    words += [_argument(random, verb) for opts, _ in options if not opts and random.random() < 0.7]
    own = [option for option in options if option[0]]
    for opts, takes in random.sample(own, min(len(own), random.choice((0, 1, 1, 2, 3, 4)))):
        spelling = random.choice(opts)
        words += [spelling, _value(random, max(opts, key=len))] if takes else [spelling]
    if verb == "explore" and "--gpus" not in words:
        words += [*random.choice((["--model", "Llama 3 8B", "--gpus", "8"], ["--config", "small.json"]))]
    if verb in OF_MEASUREMENTS and "--table" not in words:
        words += ["--table", "mine.csv"]
    case: Case = {"words": words}
    return case | {"apart": True} if random.random() * APART < 1 else case


@cache
def verbs() -> tuple[str, ...]:
    """The verbs that end by themselves."""
    return tuple(verb for verb in VERBS if verb not in SERVE)


def _argument(random: Random, verb: str) -> str:
    own = {"explain": [*all_names()], "list": ["models", "systems", "accelerators", "measurements", "links", "configs", "software", "x"],
           "show": [row_of(random, table) for table in SHIPPED]}  # fmt: skip
    plain = (
        "default",
        "minimal",
        "mixtral-8x7b",
        "small.json",
        "small.json",
        "damaged.json",
        "nowhere.json",
        "empty.json",
        ".",
    )
    return random.choice(own.get(verb, plain)) if random.random() < 0.9 else _text(random)


def _value(random: Random, option: str) -> str:
    """A value for an option."""
    rows = {"--model": MODELS, "--system": SYSTEMS, "--accelerator": ACCELERATORS, "--software": SOFTWARE}
    if random.random() < 0.08:
        return _text(random)
    if option in rows:
        return row_of(random, random.choice((rows[option], rows[option], rows[option], KERNELS, LINKS)))
    if option in ("--set", "--filter"):
        name = random.choice(inputs() if random.random() < 0.8 else all_names())
        value = drawn_value(random, name)
        return f"{name}={value if isinstance(value, str) else json.dumps(value)}" if option == "--set" else name[:4]
    if option == "--config":
        return random.choice((*shipped_configs(), "small.json", "damaged.json", "nowhere"))
    return random.choice({**WORDS, **FEW}.get(option) or ("1", "2", "4", "8", "0", "-1", "3", "1e3", "x"))


def _text(random: Random) -> str:
    """A text that a shell can hand over."""
    value = random.choice((*NASTY, *examples().get(random.choice(inputs()), ())))
    text = value if isinstance(value, str) else json.dumps(value)
    return text.replace("\0", "0").encode("utf-8", "replace").decode()


def run_line(case: Case) -> Seen:
    words = [word.encode("utf-8", "surrogatepass").decode("utf-8", "replace") for word in case.get("words", [])]
    with folder() as where:
        for name, content in FILES.items():
            (where / name).write_text(content, "utf-8")
        run = done(words, where, own_process=bool(case.get("apart")))
        return seen_of_command(run, where, own_codes=(LACKING,) if "--must" in words else ())


LINES = Kind("lines", draw_line, run_line, hourly=2_600, slice=30)
