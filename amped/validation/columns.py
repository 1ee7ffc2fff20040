"""The columns of a table of measurements, and its only reader."""

from __future__ import annotations

import csv
import io
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from importlib import resources
from pathlib import Path

from amped.base.errors import ConfigError, FileError, Problem, did_you_mean, plain, quoted
from amped.base.files import read_text

SHIPPED = "published_measurements.csv"
COUNT, FLAG, NUMBER, TEXT = "a whole number", "0 or 1", "a number", "text"
# Every column and what stands in it.
COLUMNS = {
    **dict.fromkeys(("id", "source", "source_ref", "framework", "model_name", "accelerator", "intra_node_network",
                     "inter_node_network", "precision", "activation_recompute", "notes", "confidence", "row_kind",
                     "audit"), TEXT),
    **dict.fromkeys(("layers", "hidden_size", "ffn_hidden_size", "attention_heads", "kv_heads", "vocab_size", "seq_len",
                     "num_experts", "experts_topk", "moe_layer_freq", "gpus", "gpus_per_node", "dp", "tp", "pp", "cp",
                     "ep", "virtual_pipeline_stages", "zero_stage", "micro_batch", "global_batch"), COUNT),
    **dict.fromkeys(("gated_mlp", "tied_embeddings", "sequence_parallel", "flash_attention"), FLAG),
    **dict.fromkeys(("measured_step_time_s", "measured_tokens_per_s_per_gpu", "measured_model_tflops_per_gpu",
                     "measured_mfu_pct", "measured_hfu_pct", "measured_peak_memory_GB"), NUMBER),
}  # fmt: skip
# Where tables write 0 for "none": as if the cell were blank, or one of it, which cuts nothing.
NONE_AT_ZERO = ("num_experts", "experts_topk", "moe_layer_freq", "kv_heads")
ONE_AT_ZERO = ("virtual_pipeline_stages", "tp", "pp", "cp", "ep")
# Without these a row says nothing that could be estimated; any other column may be missing, which is as if it were blank.
NEEDED = ("id", "layers", "hidden_size", "seq_len", "accelerator", "gpus", "global_batch")


@dataclass(frozen=True)
class TableRow:
    """One row of a table of measurements.

    Attributes:
        line: in the file, for messages.
        texts: what is written, without blanks; `numbers` those of them that are numbers.
        problems: cells that are not what their column holds.
        others: columns that amped does not know.
    """

    line: int
    texts: Mapping[str, str]
    numbers: Mapping[str, float]
    problems: tuple[Problem, ...]
    others: tuple[str, ...]

    def text(self, column: str) -> str:
        """What is written in a column, or nothing."""
        return self.texts.get(column, "")


def read_table(path: str | Path | None = None) -> list[TableRow]:
    """The rows of a table of measurements; of the one that comes with amped unless another is named.

    Raises:
        FileError: for a file that is missing or no table; ConfigError: for columns that are missing and ids used twice.
    """
    if path is None:
        text = resources.files("amped.lookup_tables").joinpath(SHIPPED).read_text("utf-8")
    else:
        text = read_text(Path(path))
    label = SHIPPED if path is None else str(path)
    try:
        reader = csv.DictReader(io.StringIO(text, newline=""), strict=True)
        header = reader.fieldnames = [_column(name) for name in reader.fieldnames or []]
        lines = [(reader.line_num, raw) for raw in reader]
    except csv.Error as error:
        raise FileError(f"is no table of comma-separated values: {error}", file=label) from None
    problems = [*_header_problems(header), *_twice("id", [raw.get("id") or "" for _, raw in lines])]
    problems += [_ragged(line) for line, raw in lines if None in raw or None in raw.values()]
    if problems:
        raise ConfigError(problems, file=label)
    return [_row(line, raw) for line, raw in lines]


def _column(head: str) -> str:
    """The column that a head names, without regard to case, spaces and hyphens; else the head as it stands."""
    by_plain = {plain(name): name for name in COLUMNS}
    return by_plain.get(plain(head), head.strip())


def _header_problems(header: list[str]) -> Iterator[Problem]:
    for name in NEEDED:
        if name not in header:
            yield Problem(f"the column '{name}' is missing", "header", f"needed are {', '.join(NEEDED)}")
    for name in header:
        if name not in COLUMNS and name and did_you_mean(name, COLUMNS):
            yield Problem(f"unknown column {quoted(name)}", "header", did_you_mean(name, COLUMNS))
    yield from _twice("column", header)


def _twice(what: str, names: list[str]) -> Iterator[Problem]:
    for name, times in Counter(names).items():
        if times > 1:
            yield Problem(f"the {what} {quoted(name)} stands {times} times", advice="give each its own")


def _ragged(line: int) -> Problem:
    return Problem("has not as many cells as the header", f"line {line}", "put cells with commas in quotation marks")


def _row(line: int, raw: Mapping[str, str]) -> TableRow:
    cells = {name: _one_for_zero(name, cell.strip()) for name, cell in raw.items() if name in COLUMNS}
    texts = {name: cell for name, cell in cells.items() if cell}
    numbers: dict[str, float] = {}
    problems = []
    for name, cell in texts.items():
        if COLUMNS[name] != TEXT:
            number = _number(cell, COLUMNS[name])
            if number is None:
                problems.append(Problem(f"{quoted(cell)} is not {COLUMNS[name]}", f"line {line}, column '{name}'"))
            else:
                numbers[name] = number
    others = tuple(name for name in raw if name not in COLUMNS and raw[name].strip())
    return TableRow(line, texts, numbers, tuple(problems), others)


def _one_for_zero(name: str, cell: str) -> str:
    """A cell, where 0 stands for none of it."""
    if name not in NONE_AT_ZERO + ONE_AT_ZERO or _number(cell, COUNT) != 0:
        return cell
    return "1" if name in ONE_AT_ZERO else ""


def _number(cell: str, kind: str) -> float | None:
    try:
        number = float(cell)
    except ValueError:
        return None
    whole = kind == NUMBER or number == int(number) if abs(number) < float("inf") else False
    fits = number >= 0 and whole and (kind != FLAG or number in (0, 1))
    return number if fits else None
