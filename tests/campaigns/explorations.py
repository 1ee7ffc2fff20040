"""Explorations: the best of a small machine beside a hand-made loop over `amped.estimate`; and files of findings that are damaged."""

import json
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from random import Random
from typing import Any
from unittest import mock

import amped.exploration.search as search_module
from amped.base.errors import AmpedError
from amped.library import Estimate, explore
from tests.campaigns.answers import wrong_refusal
from tests.campaigns.commands import REFUSED, RIGHT, done, folder, seen_of_command
from tests.campaigns.records import Case, Kind, Seen
from tests.helpers.explore import EVERYTHING, JOINT, SAME, SMALL, one_by_one

# What a small search may differ in: values that are the same in all its mappings.
VARIED: Mapping[str, tuple[Any, ...]] = {
    "layers": (4, 6, 8, 12), "attention_heads": (8, 16, 12), "context": (512, 1024, 1536), "zero_stage": (0, 1, 2, 3), "flash_attention": (True, False),
    "sequence_parallel": (True, False), "activation_recomputation": ("none", "selective", "full"), "memory_capacity": ("1 GB", "5 GB", "40 GB", "80 GB"),
    "performance_model": ("operators", "amped"), "pipeline_schedule": ("1f1b", "gpipe"), "overlap_data_communication": (True, False),
    "overlap_pipeline_communication": (True, False), "number_of_experts": (4,), "gated_mlp": (True, False), "optimizer": ("adam", "sgd"),
    "key_value_heads": (4, 8), "vocabulary_size": (32000, 50257), "inter_node_latency": (1e-6, 1e-4), "dropout": (0, 0.1),
}  # fmt: skip
STAGES = "pipeline_parallel_degree"


def draw_search(random: Random) -> Case:
    values = {name: random.choice(VARIED[name]) for name in random.sample([*VARIED], random.randint(0, 5))}
    values["memory_capacity"] = random.choice(VARIED["memory_capacity"])
    return {"batch": random.choice((4, 6, 8, 16)), "accelerators": random.choice((8, 8, 16)), "values": values}


def run_search(case: Case) -> Seen:
    batch, accelerators = case.get("batch", 4), case.get("accelerators", 8)
    values = case.get("values", {}) | {"number_of_accelerators": accelerators}
    tried, every = one_by_one(batch, accelerators=accelerators, **values)
    kept = [each for each in every if each["layers"] % each[STAGES] == 0]  # this space has no uneven stages
    try:
        found = explore(SMALL, space="degrees", top=EVERYTHING, batch_size=batch, **values)
    except AmpedError as error:
        lost = f"refused, and a loop finds {len(kept)} of {tried}: {error}" if kept else ""
        return Seen(wrong_refusal(error) or lost, answered=0)
    fit = [estimate for estimate in kept if estimate["fits_in_memory"]]
    if len(fit) != found.feasible:
        told = f"{len(fit)} of {tried}, not {found.feasible} of {found.candidates}"
        return Seen(f"a loop finds another number of mappings: {told}")
    best = [row["training_time"] for row in found.best]
    if fit and best != sorted(best):
        return Seen(f"the best do not come first: {best[:5]}")
    return Seen(_other_row(fit, found.best) if fit else "", answered=bool(fit))


def _other_row(fit: list[Estimate], best: list[dict[str, Any]]) -> str:
    """Where a loop over estimates and the rows of a search differ."""
    rows = {tuple(row[name] for name in JOINT): row for row in best}
    for estimate in fit:
        row = rows.get(tuple(estimate[name] for name in JOINT))
        unequal = [name for name in SAME if row is None or row[name] != estimate[name]]
        if unequal:
            told = {name: (row and row[name], estimate[name]) for name in (*JOINT, *unequal)}
            return f"a loop finds another {unequal[0]}: {told}"
    return ""


# --- findings --------------------------------------------------------------------------------------------------------

SEARCHES = (
    ["--gpus", "8"],
    ["--gpus", "4", "--top", "2", "--pareto", "step_time,memory"],
    ["--gpus", "8", "--set", "zero_stage=2", "--where", "tp <= 4"],
)
HOWS = ("bit", "byte", "add", "lose", "cut", "swap", "drop", "double", "digit", "line of another", "blank", "zeros")
FILE = "kept.jsonl"
PARTS = mock.patch.multiple(search_module, PART_CELLS=16, BLOCK_CELLS=16)


def _line(number: int) -> list[str]:
    return [
        "explore",
        "small.json",
        "--space",
        "degrees",
        *SEARCHES[number % len(SEARCHES)],
        "--resume",
        FILE,
        "--json",
    ]


def _answer(text: str) -> str:
    """What a search printed, but for the time it took."""
    return json.dumps({name: value for name, value in json.loads(text).items() if name != "elapsed_time"})


@cache
def finished(number: int) -> tuple[bytes, str]:
    """The findings and the answer of a whole search."""
    with folder() as where, PARTS:
        (where / "small.json").write_text(json.dumps(SMALL), "utf-8")
        run = done(_line(number), where)
        if run.returncode != RIGHT:
            raise RuntimeError(run.stderr)
        return (where / FILE).read_bytes(), _answer(run.stdout)


def draw_damage(random: Random) -> Case:
    number = random.randrange(len(SEARCHES))
    changes = [
        [random.choice(HOWS), random.randrange(10**6), random.randrange(256)]
        for _ in range(random.choice((1, 1, 1, 2)))
    ]
    return {"search": number, "changes": changes}


def changed(text: bytes, how: str, millionths: int, byte: int) -> bytes:
    """Findings after one damage."""
    place = len(text) * millionths // 10**6
    lines = text.splitlines(keepends=True) or [b""]
    line = len(lines) * millionths // 10**6
    if how in ("swap", "drop", "double", "line of another", "blank"):
        return b"".join(_other_lines(lines, line, how, byte))
    if how == "digit":
        digits = [n for n in range(place, len(text)) if 48 <= text[n] < 58]
        return text[: digits[0]] + bytes([48 + byte % 10]) + text[digits[0] + 1 :] if digits else text
    own = (
        {"bit": bytes([text[place] ^ 1 << byte % 8]), "byte": bytes([byte]), "add": bytes([byte]), "zeros": bytes(byte)}
        if text
        else {}
    )
    return (
        text[:place] + own.get(how, b"") + (b"" if how == "cut" else text[place + (how in ("bit", "byte", "lose")) :])
    )


def _other_lines(lines: list[bytes], line: int, how: str, byte: int) -> list[bytes]:
    other = byte % len(lines)
    if how == "swap":
        lines[line], lines[other] = lines[other], lines[line]
        return lines
    own = {"drop": [], "double": [lines[line]] * 2, "blank": [b"\n", lines[line]]}
    if how in own:
        return lines[:line] + own[how] + lines[line + 1 :]
    strange = finished(other)[0].splitlines(keepends=True)
    return [*lines[:line], strange[line % len(strange)], *lines[line + 1 :]]


def run_damage(case: Case) -> Seen:
    number = case.get("search", 0)
    whole, wanted = finished(number % len(SEARCHES))
    text = whole
    for change in case.get("changes", []):
        text = changed(text, *[*change, 0, 0][:3]) if change else text
    with folder() as where, PARTS:
        (where / "small.json").write_text(json.dumps(SMALL), "utf-8")
        (where / FILE).write_bytes(text)
        run = done(_line(number), where)
        return _believed(run, text, where, wanted)


def _believed(run: Any, text: bytes, where: Path, wanted: str) -> Seen:
    """What is wrong with a search that went on from damaged findings."""
    seen = seen_of_command(run, where)
    if seen.wrong:
        return seen
    if run.returncode == RIGHT and _answer(run.stdout) != wanted:
        return Seen(f"a damaged file is believed: {run.stdout[:300]}")
    if run.returncode == REFUSED and (where / FILE).read_bytes() != text:
        return Seen(f"a refused file was written to: {run.stderr[:300]}")
    return seen


SEARCHES_BY_HAND = Kind("explorations", draw_search, run_search, hourly=200, slice=4, seconds=60.0)
FINDINGS = Kind("findings", draw_damage, run_damage, hourly=1_300, slice=15)
