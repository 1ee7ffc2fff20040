"""Files: they are read strictly, written atomically, and never overwritten.

A file appears under its final name completely or not at all; a full disk or an interrupt leaves nothing behind.
"""

from __future__ import annotations

import contextlib
import errno
import json
import math
import os
import re
import select
import shutil
import stat
from collections.abc import Iterator
from dataclasses import replace
from functools import lru_cache
from importlib.machinery import ModuleSpec
from importlib.util import find_spec
from pathlib import Path
from typing import IO, Any

from amped.base.errors import FileError, Problem, quoted

LARGEST_JSON_BYTES = 64_000_000
# Characters that a terminal obeys instead of showing them: all controls but tab and line ends.
_CONTROL = re.compile(r"[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f]")
# Seconds until a pipe without a writer is given up.
PATIENCE = 10.0
MOST_DIGITS = 400
# A folder with more than these was meant to be another one; to look through it may take minutes.
MOST_FILES = 10_000
NO_SPACE = (errno.ENOSPC, errno.EDQUOT)


@contextlib.contextmanager
def refusals_told(verb: str, path: Path, advice: str = "") -> Iterator[None]:
    """Turns errors of the operating system that are raised inside into errors about a file.

    Args:
        verb: what cannot be done with the file: "read", "written" and so on.
        path: the file.
        advice: what the user can do.

    Raises:
        FileError: for each error of the system.
    """
    try:
        yield
    except OSError as error:
        raise FileError(f"cannot be {verb}: {_reason(error)}", advice, str(path)) from None


# os.path is meant in these three: Path's own methods raise for a name that is too long.
def is_file(path: Path) -> bool:
    """Whether a path is a file; false for a name that no system accepts, such as one of thousands of letters."""
    return os.path.isfile(path)  # noqa: PTH113


def is_folder(path: Path) -> bool:
    """Whether a path is a folder; false for a name that no system accepts."""
    return os.path.isdir(path)  # noqa: PTH112


def exists(path: Path) -> bool:
    """Whether a path is a file or a folder; false for a name that no system accepts."""
    return os.path.exists(path)  # noqa: PTH110


def files_below(folder: Path, *endings: str) -> list[Path]:
    """The files with one of these endings in a folder and its subfolders, sorted; hidden files and folders are left out.

    Raises:
        FileError: if there are too many files to look at.
    """
    paths, number = [], 0
    for here, folders, names in os.walk(folder):
        folders[:] = [name for name in folders if not name.startswith(".")]
        paths += [Path(here, name) for name in names if name.endswith(endings) and not name.startswith(".")]
        number += len(folders) + len(names)
        if number > MOST_FILES:
            what, advice = f"holds more than {MOST_FILES:,} files", "name the folder that has those you mean"
            raise FileError(what, advice, str(folder))
    return sorted(filter(is_file, paths))


def read_text(path: Path) -> str:
    """The text of a file.

    Raises:
        FileError: if it is missing, unreadable, a folder, too large or not UTF-8.
    """
    try:
        return read_bytes(path, LARGEST_JSON_BYTES).decode("utf-8-sig").replace("\r\n", "\n").replace("\r", "\n")
    except FileNotFoundError:
        raise FileError("no such file", file=str(path)) from None
    except UnicodeDecodeError as error:
        line = error.object.count(b"\n", 0, error.start) + 1
        column = error.start - error.object.rfind(b"\n", 0, error.start)
        what = f"line {line}, column {column}: is not UTF-8 text (byte {error.start} of the file)"
        raise FileError(what, "save it as UTF-8", file=str(path)) from None
    except (OSError, ValueError) as error:
        raise FileError(f"cannot be read: {_reason(error)}", file=str(path)) from None


def read_bytes(path: Path, most: int) -> bytes:
    """The content of a file, of a device, or of a pipe.

    Raises:
        FileError: if it is longer than `most` bytes, or a pipe that nobody writes to; OSError: if it cannot be read.
    """
    about = path.stat()
    with _opened_pipe(path) if stat.S_ISFIFO(about.st_mode) else path.open("rb") as stream:
        content = stream.read(most + 1) if about.st_size <= most else b""
    if max(len(content), about.st_size) > most:
        raise FileError(f"is larger than {most // 10**6} MB", file=str(path))
    return content


def _opened_pipe(path: Path) -> IO[bytes]:
    """A named pipe, opened for reading once a program writes to it.

    Raises:
        FileError: if none does within `PATIENCE` seconds; a plain `open` would wait for ever.
    """
    handle = os.open(path, os.O_RDONLY | os.O_NONBLOCK)
    if not select.select([handle], [], [], PATIENCE)[0]:
        os.close(handle)
        raise FileError(f"is a pipe that nobody wrote to for {PATIENCE:g} s", file=str(path))
    os.set_blocking(handle, True)
    return os.fdopen(handle, "rb")


class _Refused(float):
    """A placeholder for a number that JSON does not have; `problem` is the index of its problem in `_Strict.problems`."""

    problem: int


class _Strict:
    """Hooks for `json.loads` that note what JSON allows and a config must not contain."""

    def __init__(self, is_ours: bool) -> None:
        self.problems: list[Problem] = []
        self.is_ours = is_ours
        self.numbers: dict[str, Any] = {} if is_ours else {"parse_float": self.finite, "parse_int": self.whole}

    def unique(self, pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        """A JSON object as a dictionary; adds problems for keys that appear twice and for control characters."""
        seen: dict[str, Any] = dict(pairs) if self.is_ours else {}
        if len(seen) == len(pairs):
            return seen
        seen = {}
        for key, value in pairs:
            if any(_CONTROL.search(text) for text in (key, value) if isinstance(text, str)):
                what = f"the key or the text of {quoted(key)} has a control character"
                self.problems.append(Problem(what, advice="take it away"))
            if key in seen:
                self.problems.append(Problem(f"the key {quoted(key)} stands twice in one object", advice="keep one"))
            where = quoted(key) if _CONTROL.search(key) else key
            for number in value if isinstance(value, list) else [value]:
                if isinstance(number, _Refused):
                    self.problems[number.problem] = replace(self.problems[number.problem], where=where)
            seen[key] = value
        return seen

    def refused(self, word: str) -> float:
        """A placeholder for NaN or an infinity; adds its problem."""
        self.problems.append(Problem(f"{word} is not a JSON number", advice="write a finite number"))
        number = _Refused(0.0)
        number.problem = len(self.problems) - 1
        return number

    def finite(self, written: str) -> float:
        """A number with a point or an exponent."""
        number = float(written)
        return self.refused(written[:20]) if math.isinf(number) else number

    def whole(self, written: str) -> float:
        """A number without a point and an exponent."""
        return int(written) if len(written) <= MOST_DIGITS else self.refused(f"an integer of {len(written)} digits")


def parse_json(text: str, file: str = "", is_ours: bool = False, by_python: bool = False) -> Any:
    """The value of a JSON text without duplicate keys, NaN, infinities and endless nesting.

    Of amped's own files, which a test reads strictly, control characters and the size of numbers are not looked at again.
    In files that Python may have written, NaN and infinities are words, which no quantity takes as its value.

    Raises:
        FileError: with line and column if the text is not JSON; with all duplicate keys at once.
    """
    strict = _Strict(is_ours)
    try:
        constant = str if by_python else strict.refused
        value = json.loads(text, object_pairs_hook=strict.unique, parse_constant=constant, **strict.numbers)
    except json.JSONDecodeError as error:
        raise FileError(_broken(error), file=file) from None
    except RecursionError:
        raise FileError("is nested too deeply to be read", advice="a config needs five levels", file=file) from None
    if strict.problems:
        raise FileError(strict.problems, file=file)
    return value


def _broken(error: json.JSONDecodeError) -> Problem:
    """The problem of a text that is not JSON: the place where it stops being JSON, and why.

    A comma with nothing after it has a message of its own for all Pythons.
    """
    what, place, advice = error.msg, error.pos, ""
    before, closing = error.doc[: error.pos + what.startswith("Illegal trailing comma")].rstrip(" \t\r\n"), ("}", "]")
    if before.endswith(",") and (error.doc.startswith(closing, place) or len(before) > place):
        place = len(before) - 1
        what = f"a comma stands before {error.doc[len(before) :].lstrip()[0]!r}"
        advice = "take it away"
    line = error.doc.count("\n", 0, place) + 1
    column = place - error.doc.rfind("\n", 0, place)
    return Problem(f"is not valid JSON: {what}", where=f"line {line}, column {column}", advice=advice)


def read_json(path: Path) -> Any:
    """The JSON value of a file; see `parse_json`."""
    return parse_json(read_text(path), str(path))


def shipped_text(room: str, name: str) -> str:
    """The text of a file that comes with amped, from one of its data folders.

    An installed package may not be a folder. `importlib.resources` does the same, and takes as long to load as all other
    modules of this file.
    """
    loader: Any = _spec(room).loader
    return str(loader.get_data(str(shipped_folder(room) / name)), "utf-8").replace("\r\n", "\n")


def is_shipped(room: str, name: str) -> bool:
    """Whether a file of this name comes with amped, in one of its data folders."""
    loader: Any = _spec(room).loader
    try:
        return Path(name).name == name and loader.get_data(str(shipped_folder(room) / name)) is not None
    except (OSError, ValueError):  # there is none, or no system takes the name
        return False


def shipped_folder(room: str) -> Path:
    """One of the data folders that come with amped."""
    return Path((_spec(room).submodule_search_locations or [""])[0])


@lru_cache(maxsize=16)
def _spec(room: str) -> ModuleSpec:
    """Where a data folder is.

    Raises:
        ModuleNotFoundError: if it did not come with amped.
    """
    spec = find_spec(f"amped.{room}")
    if spec is None:
        raise ModuleNotFoundError(f"amped.{room}")
    return spec


def shipped_json(room: str, name: str) -> Any:
    """The parsed JSON of a data file that comes with amped.

    Args:
        room: the folder of the package in which the file lies, such as "schema".
        name: the name of the file.
    """
    return parse_json(shipped_text(room, name), name, is_ours=True)


def write_atomically(path: Path, content: str | bytes, overwrite: bool = False) -> Path:
    """Writes a whole file or nothing; without `overwrite`, a free name next to `path` is used.

    Returns:
        The path of the file: `path`, or `path` with -2, -3 … before the suffix.

    Raises:
        FileError: if the folder or the file cannot be written.
    """
    with AtomicFile(path, overwrite) as file:
        file.stream.write(content.encode("utf-8", "replace") if isinstance(content, str) else content)
    return file.path


def temporary_name() -> str:
    """A new name for a temporary file or folder, with the machine and the number of this process in it."""
    return f".amped-{_machine()}-{os.getpid()}-{os.urandom(8).hex()}"


def without_leftovers(folder: Path) -> None:
    """Removes temporary files that ended processes of this machine left in a folder, for example after kill -9."""
    for leftover in folder.glob(f".amped-{_machine()}-*-*"):
        process = leftover.name.split("-")[2]
        if process.isdigit() and not _runs(int(process)):
            if leftover.is_dir():
                shutil.rmtree(leftover, ignore_errors=True)
            else:
                with contextlib.suppress(OSError):  # what another user left is not ours to remove
                    leftover.unlink()


def _machine() -> str:
    """A name for this machine and container, within which process numbers are unique; of letters, digits and _ only."""
    name = os.uname().nodename if hasattr(os, "uname") else ""
    with contextlib.suppress(OSError):  # only Linux has such spaces of numbers
        name += f"_{Path('/proc/self/ns/pid').stat().st_ino}"
    return re.sub(r"\W", "_", name) or "here"


def _runs(process: int) -> bool:
    """Whether a process with this number runs; true if that cannot be known."""
    if not hasattr(os, "uname"):  # on Windows, the question would end the process
        return True
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return False
    except OSError:  # it is another user's
        return True
    return True


class AtomicFile:
    """A file that is written piece by piece. It appears when all is written; after an error nothing is left behind.

    Write with `with AtomicFile(path) as file: file.stream.write(…)`. Afterwards `file.path` is its path: `path`, or, if
    that exists and `overwrite` is false, `path` with -2, -3 … before the suffix. An error of the disk is a FileError.
    """

    def __init__(self, path: Path, overwrite: bool = False) -> None:
        self.path, self.overwrite = path, overwrite

    def __enter__(self) -> AtomicFile:
        path = self.path
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            without_leftovers(path.parent)
            self.temporary = path.parent / f"{temporary_name()}.part"
            flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL
            self.stream = os.fdopen(os.open(self.temporary, flags, 0o666), "wb")  # the user's umask applies
        except FileExistsError:
            raise FileError("is a file, not a folder", "choose another --output-dir", str(path.parent)) from None
        except (OSError, ValueError) as error:
            raise FileError(f"cannot be written: {_reason(error)}", "choose another --output-dir", str(path)) from None
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, _: object) -> None:
        try:
            if error is None:
                self._finish()
        except (OSError, ValueError) as broken:
            error = OSError(_reason(broken))
        finally:
            with contextlib.suppress(OSError):
                self.stream.close()
            with contextlib.suppress(FileNotFoundError):
                os.unlink(self.temporary)
        if isinstance(error, OSError):
            raise FileError(f"cannot be written: {_reason(error)}", "nothing was left behind", str(self.path)) from None

    def _finish(self) -> None:
        self.stream.flush()
        os.fsync(self.stream.fileno())
        self.stream.close()
        self.path = _settle(self.temporary, self.path, self.overwrite)


def _settle(temporary: Path, path: Path, overwrite: bool) -> Path:
    """Gives the finished file its name, without replacing another file unless `overwrite` is true."""
    if overwrite:
        os.replace(temporary, path)
        return path
    for number in range(1, 10_000):
        name = path if number == 1 else path.with_stem(f"{path.stem}-{number}")
        try:
            os.link(temporary, name)
            return name
        except FileExistsError:
            continue
        except OSError as error:
            if error.errno in NO_SPACE:
                raise
            if not name.exists():
                return temporary.rename(name)  # a file system without hard links
    raise OSError(f"10 000 files named {path.name} exist")


def output_file(folder: Path, name: str, stamp: str = "") -> Path:
    """The path `folder/2026-11-20_14-05-09_name`, in the folder even if the name has unsafe characters."""
    safe = re.sub(r"[^A-Za-z0-9._+-]+", "-", name).lstrip(".-")[:150] or "output"
    return folder / f"{stamp or _now()}_{safe}"


def free_stamp(folder: Path, names: list[str]) -> str:
    """The date and time to put before several names; a number follows if a run of the same second has used it."""
    now = _now()
    stamps = [now, *(f"{now}-{number}" for number in range(2, 1000))]
    return next((s for s in stamps if not any(output_file(folder, name, s).exists() for name in names)), now)


def _now() -> str:
    from datetime import datetime  # only where a file is written

    return datetime.now().strftime("%Y-%m-%d_%H-%M-%S")


def _reason(error: Exception) -> str:
    return (getattr(error, "strerror", None) or str(error) or type(error).__name__).lower()
