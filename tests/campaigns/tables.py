"""Lookup tables of users at random: rows, columns and cells that are right and wrong, and files that are damaged."""

import copy
import csv
import io
import json
from pathlib import Path
from random import Random
from typing import Any

from amped.base.files import shipped_text
from amped.library import estimate
from amped.tables.table_files import ACCELERATORS, KERNELS, LINKS, MODELS, SOFTWARE, SYSTEMS, shipped
from tests.campaigns.answers import seen_of_estimate
from tests.campaigns.commands import done, folder, seen_of_command
from tests.campaigns.records import Case, Kind, Seen
from tests.campaigns.values import drawn_value, examples, nasty, row_of

TABLES = (ACCELERATORS, ACCELERATORS, SYSTEMS, SYSTEMS, MODELS, MODELS, SOFTWARE, KERNELS, LINKS)
ASKED_AS = {ACCELERATORS: "accelerator", SYSTEMS: "system", MODELS: "model", SOFTWARE: "software"}
NAMES = (
    "Mine",
    "X [/b]",
    "=1+1",
    "H100 SXM",
    "A100",
    "Llama 3 8B",
    "DGX H100",
    "\x1b[31m",
    "",
    "a,b",
    "ü 1",
    "x" * 300,
)
DAMAGE = b'\x00\xff{}[]",:9aE-\n\xe2'
MEASUREMENTS = "published_measurements.csv"
# Verbs that read a measurement table and that answer within a second for a few rows.
ASKS = (["validate", "--rows"], ["validate", "--json"], ["validate", "--assumed"], ["validate", "--csv"])


def draw_table(random: Random) -> Case:
    if random.random() < 0.15:
        return _measurements(random)
    table = random.choice(TABLES)
    rows = {
        random.choice(NAMES[:2] if random.random() < 0.7 else NAMES): _row(random, table)
        for _ in range(random.choice((1, 1, 2)))
    }
    content: Any = {"table": table, "rows": rows} if random.random() < 0.6 else {table: rows}
    if random.random() < 0.1:
        content[random.choice((*content, "rows", "new"))] = nasty(random)
    return {
        "content": content,
        "damage": _damages(random),
        "verb": random.choice(("estimate",) * 8 + ("check-tables", "list", "show")),
    }


def _row(random: Random, table: str) -> Any:
    """A shipped row with some cells that are others, or a row of a few cells."""
    row = copy.deepcopy(dict(shipped(table)[row_of(random, table)])) if random.random() < 0.7 else {}
    for _ in range(random.randint(0, 4)):
        column = random.choice([*row, *shipped(table)[row_of(random, table)], random.choice([*examples()])])
        row[column] = (
            drawn_value(random, column) if random.random() < 0.7 else random.choice(examples().get(column) or (None,))
        )
    if row and random.random() < 0.3:
        del row[random.choice([*row])]
    if random.random() < 0.1:
        row["extends"] = random.choice((row_of(random, table), "Mine", "nobody", 5))
    return row if random.random() < 0.97 else nasty(random)


def _damages(random: Random) -> list[list[int]]:
    """Places, as millionths of the file, what is done there, and the byte that comes there."""
    if random.random() < 0.75:
        return []
    return [
        [random.randrange(10**6), random.randrange(4), random.choice(DAMAGE)] for _ in range(random.choice((1, 1, 3)))
    ]


def damaged(text: bytes, damages: list[list[int]]) -> bytes:
    """A file in which bytes are others, were lost or were added, or that is cut."""
    for damage in damages:
        millionths, how, byte = [*damage, 0, 0, 0][:3]
        place = len(text) * millionths // 10**6
        kept = text[place + (how in (0, 1)) :] if how < 3 else b""
        text = text[:place] + (bytes([byte]) if how in (0, 2) else b"") + kept
    return text


def _measurements(random: Random) -> Case:
    """Shipped measurements, a few rows, with cells that are others."""
    rows = [*csv.DictReader(io.StringIO(shipped_text("lookup_tables", MEASUREMENTS)))]
    chosen = [dict(random.choice(rows)) for _ in range(random.choice((1, 2)))]
    for row in chosen:
        for _ in range(random.randint(0, 3)):
            column = random.choice([*row])
            value = random.choice(rows)[column] if random.random() < 0.5 else drawn_value(random, column)
            row[column] = value if isinstance(value, str) else json.dumps(value)
    return {"measurements": chosen, "damage": _damages(random), "words": random.choice(ASKS)}


def run_table(case: Case) -> Seen:
    with folder() as where:
        damages = [each for each in case.get("damage", []) if each]
        if "measurements" in case:
            path = where / "mine.csv"
            path.write_bytes(damaged(_as_csv(case["measurements"]), damages))
            return seen_of_command(done([*case.get("words", ["validate"]), "--table", str(path)], where), where)
        path = where / "mine.json"
        path.write_bytes(damaged(json.dumps(case.get("content")).encode(), damages))
        return _asked(case, path, where)


def _as_csv(rows: list[dict[str, str]]) -> bytes:
    columns = dict.fromkeys(name for row in rows for name in row)
    text = io.StringIO()
    writer = csv.DictWriter(text, [*columns], lineterminator="\n")
    writer.writeheader()
    writer.writerows(rows)
    return text.getvalue().encode("utf-8", "replace")


def _asked(case: Case, path: Path, where: Path) -> Seen:
    """What a verb says of a table: an estimate with its first row, or a verb that reads all."""
    table, row = _first_row(case.get("content"))
    verb = case.get("verb", "estimate")
    if verb == "check-tables":
        return seen_of_command(done([verb, str(path)], where), where)
    if verb != "estimate":
        words = [verb, {"list": "accelerators"}.get(verb, row), "--lookup-tables", str(path)]
        return seen_of_command(done([word for word in words if "\0" not in word], where), where)
    given = {ASKED_AS[table]: row} if table in ASKED_AS else {}
    return seen_of_estimate(lambda: estimate("minimal", lookup_tables=path, **given))


def _first_row(content: Any) -> tuple[str, str]:
    """The table that a file is drawn for, and its first row."""
    if not isinstance(content, dict) or not content:
        return "", "Mine"
    table = content["table"] if isinstance(content.get("table"), str) else next(iter(content))
    rows = content.get("rows", content.get(table))
    return table, next(iter(rows)) if isinstance(rows, dict) and rows else "Mine"


TABLES_AT_RANDOM = Kind("tables", draw_table, run_table, hourly=4_000, slice=60)
