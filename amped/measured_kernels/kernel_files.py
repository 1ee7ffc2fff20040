"""The door to files of measured kernels: amped's own tables, and those of other tools as they are, recognized by content."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from amped.base.errors import FileError, Problem
from amped.base.files import exists, files_below, is_folder, parse_json, read_text
from amped.measured_kernels import (
    aiconfigurator,
    aiconfigurator_layers,
    cudnn,
    cudnn_norms,
    exchanges,
    nccl_tests,
    simumax,
)
from amped.measured_kernels.bench_results import SCHEMA, not_a_result, schema_of
from amped.measured_kernels.found_rows import FileRead, FoundRows
from amped.measured_kernels.kinds import KINDS
from amped.measured_kernels.table_reading import ENDINGS, MeasuredKernels, columns_of, read_table

# Files of a folder with other endings are not looked at.
SUFFIXES = (".txt", ".log", ".out", ".json", *ENDINGS)
OWN, NOT_READ = "amped's own form", "not read"
# What Git leaves in place of a large file that was not fetched.
POINTER = "version https://git-lfs.github.com/spec/"
NOT_FETCHED = "is a pointer of Git LFS, not the file: fetch it with git lfs pull"
Reader = Callable[[], FoundRows]
# The readers of text, those with the surest marks first: `is_own_format` tells whether a text is the tool's, `read` reads it.
TEXTS = (aiconfigurator_layers, aiconfigurator, cudnn, cudnn_norms, nccl_tests)
TOOLS = ", ".join((nccl_tests.TOOL, aiconfigurator.TOOL, cudnn.TOOL, cudnn_norms.TOOL, simumax.TOOL))


def read_all(path: Path, may_be_none: bool = False) -> list[FileRead]:
    """The kernels of a file; of a folder, those of each file in it and in the folders below.

    Args:
        path: the file or the folder.
        may_be_none: whether a folder may have no kernel.

    Raises:
        FileError: for a file that is missing, damaged or of no form that amped reads, or a folder without kernels.
        ConfigError: if a library is missing that reads tables.
    """
    if not is_folder(path):
        return [_named_file(path)]
    files = [_file_in_any_form(file) for file in files_below(path, *SUFFIXES)]
    if not may_be_none and not kernels_of(files):
        problems = [Problem(why, file.file) for file in files for why in file.left]
        message = f"holds no table of kernels: a table is named {', '.join(KINDS)}, with .parquet or .csv, or is a file of {TOOLS}"
        raise FileError([Problem(message, advice="name the folder that has them"), *problems], file=str(path))
    return files


def read_kernels(path: Path, may_be_none: bool = False) -> list[MeasuredKernels]:
    """All kernels of a file, or of a folder and of the folders in it.

    Raises:
        FileError, ConfigError: as `read_all`.
    """
    return kernels_of(read_all(path, may_be_none))


def kernels_of(files: Sequence[FileRead]) -> list[MeasuredKernels]:
    """All kernels of some files."""
    return [kernels for file in files for kernels in file.kernels]


def _named_file(path: Path) -> FileRead:
    """The kernels of a file that the user names.

    Raises:
        FileError: if there is no such file, if amped does not read its form, or if none of its rows can be compared.
    """
    if not exists(path):
        raise FileError("no such file or folder", "name a table of kernels, or a folder of them", file=str(path))
    file = _file_in_any_form(path)
    if file.tool == NOT_READ:
        raise FileError(next(iter(file.left)), f"amped reads its own tables, and files of {TOOLS}", file=str(path))
    if not file.kernels:
        problems = (Problem(why, f"{number:,} rows") for why, number in file.left.items())
        raise FileError([Problem("has no kernel that amped can compare"), *problems], file=str(path))
    return file


def _file_in_any_form(path: Path) -> FileRead:
    """The kernels of a file; if amped does not read its form, no kernels, and the reason in `left`.

    Raises:
        FileError: for a damaged file.
    """
    reader = _reader(path)
    if isinstance(reader, str):
        return FileRead(str(path), NOT_READ, kernels=(), left={reader: 1})
    if reader is None:
        return FileRead(str(path), OWN, kernels=tuple(read_table(path)), left={}, own=True)
    rows = reader()
    return FileRead(str(path), rows.tool, kernels=tuple(rows.kernels()), left=+rows.left)


def _reader(path: Path) -> Reader | str | None:
    """The function that reads a file; None for a table of amped's own form; a text with the reason if none reads it."""
    if path.suffix == ".parquet":
        return _reader_of_columns(path)
    text = read_text(path)
    if text.startswith(POINTER):
        return NOT_FETCHED
    if path.suffix == ".json" or text.lstrip()[:1] == "{":
        return _reader_of_json(text, path)
    if tool := next((tool for tool in TEXTS if tool.is_own_format(text)), None):
        return partial(tool.read, text, path)
    return None if path.stem in KINDS and path.suffix in ENDINGS else "is of no form that amped reads"


def _reader_of_columns(path: Path) -> Reader | str | None:
    """The function that reads a Parquet file, None or a text, as `_reader` returns them."""
    if path.read_bytes()[: len(POINTER)] == POINTER.encode():
        return NOT_FETCHED
    columns = columns_of(path)
    if exchanges.form_of(columns):
        return partial(exchanges.read_columns, columns, path)
    if aiconfigurator_layers.table_of(columns):
        return partial(aiconfigurator_layers.read_columns, columns, path)
    if columns.keys() >= aiconfigurator.ABOUT:
        return partial(aiconfigurator.read_columns, columns, path)
    return None if path.stem in KINDS else "is no table of kernels: its columns are of no form that amped reads"


def _reader_of_json(text: str, path: Path) -> Reader | str:
    """The function that reads a JSON file; a text with the reason if none reads it."""
    raw: Any = parse_json(text, str(path))
    if simumax.is_own_format(raw):
        return partial(simumax.read, raw, path)
    if schema_of(raw) == SCHEMA:
        return "is a result of `amped bench run`, from which estimates take times: --set measured_kernel_table=FILE"
    if isinstance(raw, dict) and "schema" in raw:
        return not_a_result(raw)
    keys = json.dumps(list(raw)[:5]) if isinstance(raw, dict) else "no object"
    return f"is of no form that amped reads: it has {keys}"
