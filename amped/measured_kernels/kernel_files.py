"""The door to files of measured kernels: amped's own tables, and those of other tools as they are, recognized by content."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

from amped.base.errors import FileError, Problem
from amped.base.files import exists, files_below, is_folder, parse_json, read_text
from amped.measured_kernels import aiconfigurator, cudnn, nccl_tests, simumax
from amped.measured_kernels.bench_results import SCHEMA, not_a_result
from amped.measured_kernels.found_rows import FileRead, FoundRows
from amped.measured_kernels.kinds import KINDS
from amped.measured_kernels.table_reading import ENDINGS, MeasuredKernels, columns_of, read_table

# Files of a folder with other endings are not looked at.
SUFFIXES = (".txt", ".log", ".out", ".json", *ENDINGS)
OWN = "amped's own form"
# What Git leaves in place of a large file that was not fetched.
POINTER = "version https://git-lfs.github.com/spec/"
NOT_FETCHED = "is a pointer of Git LFS, not the file: fetch it with git lfs pull"
Reader = Callable[[], FoundRows]


class Tool(NamedTuple):
    """A tool whose text files are read: whether a text is of it, and how it is read."""

    fits: Callable[[str], bool]
    read: Callable[[str, Path], FoundRows]


def _heads(text: str) -> list[str]:
    return text.partition("\n")[0].strip().split(",")


# The surest marks first.
TEXTS = (
    Tool(lambda text: aiconfigurator.fits(_heads(text)), aiconfigurator.read_text),
    Tool(lambda text: cudnn.fits(_heads(text)), cudnn.read),
    Tool(nccl_tests.fits, nccl_tests.read),
)


def read_all(path: Path, may_be_none: bool = False) -> list[FileRead]:
    """What a file of measured kernels holds, or each file of a folder and of the folders in it.

    Args:
        path: the file or the folder.
        may_be_none: whether a folder may have no kernel.

    Raises:
        FileError: for a file that is missing, damaged or of no form that amped reads, or a folder without kernels.
        ConfigError: if a library is missing that reads tables.
    """
    if not is_folder(path):
        return [_read(path)]
    found = [_read_or_leave(each) for each in files_below(path, *SUFFIXES)]
    if not may_be_none and not any(each.kernels for each in found):
        problems = [Problem(why, each.file) for each in found for why in each.left]
        what = f"holds no table of kernels: a table is named {', '.join(KINDS)}, with .parquet or .csv, or is a file of {_tools()}"
        raise FileError([Problem(what, advice="name the folder that has them"), *problems], file=str(path))
    return found


def read_kernels(path: Path, may_be_none: bool = False) -> list[MeasuredKernels]:
    """All kernels of a file, or of a folder and of the folders in it.

    Raises:
        FileError, ConfigError: as `read_all`.
    """
    return kernels_of(read_all(path, may_be_none))


def kernels_of(files: Sequence[FileRead]) -> list[MeasuredKernels]:
    """All kernels of some files."""
    return [kernels for each in files for kernels in each.kernels]


def _read_or_leave(path: Path) -> FileRead:
    """A file of a folder. One of another form is left out.

    Raises:
        FileError: for a damaged file.
    """
    reader = _reader(path)
    if isinstance(reader, str):
        return FileRead(str(path), "not read", (), {reader: 1})
    return _made(path, reader)


def _read(path: Path) -> FileRead:
    """A file that the user names.

    Raises:
        FileError: if it is of no form that amped reads, or none of its rows can be compared.
    """
    if not exists(path):
        raise FileError("no such file or folder", "name a table of kernels, or a folder of them", file=str(path))
    reader = _reader(path)
    if isinstance(reader, str):
        raise FileError(reader, f"amped reads its own tables, and files of {_tools()}", file=str(path))
    made = _made(path, reader)
    if not made.kernels:
        raise FileError([Problem("has no kernel that amped can compare"), *(Problem(why, f"{number:,} rows") for why, number in made.left.items())],
                        file=str(path))  # fmt: skip
    return made


def _made(path: Path, reader: Reader | None) -> FileRead:
    """What a reader finds; amped's own tables have no other."""
    if reader is None:
        return FileRead(str(path), OWN, tuple(read_table(path)), {}, own=True)
    found = reader()
    kernels = tuple(found.kernels())
    return FileRead(str(path), found.tool, kernels, {why: number for why, number in found.left.items() if number})


def _reader(path: Path) -> Reader | str | None:
    """What reads a file: the reader of a tool, or None for amped's own; else why it is not read, as text."""
    if path.suffix == ".parquet":
        return _reader_of_columns(path)
    if path.stem in KINDS and path.suffix in ENDINGS:
        return None
    text = read_text(path)
    if text.startswith(POINTER):
        return NOT_FETCHED
    if path.suffix == ".json" or text.lstrip()[:1] == "{":
        return _reader_of_json(text, path)
    tool = next((each for each in TEXTS if each.fits(text)), None)
    return partial(tool.read, text, path) if tool else "is of no form that amped reads"


def _reader_of_columns(path: Path) -> Reader | str | None:
    """The reader of a Parquet file."""
    if path.read_bytes()[: len(POINTER)] == POINTER.encode():
        return NOT_FETCHED
    columns = columns_of(path)
    if aiconfigurator.fits(list(columns)):
        return partial(aiconfigurator.read_columns, columns, path)
    return None if path.stem in KINDS else "is no table of kernels: its columns are of no form that amped reads"


def _reader_of_json(text: str, path: Path) -> Reader | str:
    """The reader of a JSON file."""
    raw: Any = parse_json(text, str(path))
    if simumax.fits(raw):
        return partial(simumax.read, raw, path)
    if isinstance(raw, dict) and raw.get("schema") == SCHEMA:
        return "is a result of `amped bench run`, from which estimates take times: --set measured_kernel_table=FILE"
    if isinstance(raw, dict) and "schema" in raw:
        return not_a_result(raw)
    keys = json.dumps(list(raw)[:5]) if isinstance(raw, dict) else "no object"
    return f"is of no form that amped reads: it has {keys}"


def _tools() -> str:
    return ", ".join((nccl_tests.TOOL, aiconfigurator.TOOL, cudnn.TOOL, simumax.TOOL))
