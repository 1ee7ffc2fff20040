"""A JSON file, read piece by piece: what stands beside a long list, and each item of the list.

The file is never held as a whole: the standard library decodes one value after the other from a window of text.
"""

from __future__ import annotations

import gzip
import json
import re
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import IO, Any

from amped.base.errors import FileError, Problem, quoted
from amped.base.files import refusals_told

# The characters that are read at a time, and those that one value may have: the longest name of a kernel has thousands.
WINDOW, LONGEST = 1 << 22, 1 << 26
GZIP = b"\x1f\x8b"
BLANK = re.compile(r"[\s,]*")
CUT = "the file ends in the middle: the run or the copy was cut off"
AGAIN = "copy it again, or let the profiler finish"


def values(path: Path, list_name: str) -> Iterator[tuple[str, Any]]:
    """The values of the file's object, each with its name; of the list `list_name` each item, with that name.

    A file that is only a list is that list. In files that programs write while they run, its end may be missing.

    Raises:
        FileError: if the file cannot be read, is no JSON, or ends in the middle.
    """
    with refusals_told("read", path), path.open("rb") as raw:
        packed = raw.read(2) == GZIP
        raw.seek(0)
        try:
            with (
                gzip.open(raw, "rt", encoding="utf-8", errors="replace")
                if packed
                else path.open(encoding="utf-8", errors="replace") as file
            ):
                yield from _values(_Text(file), list_name)
        except (EOFError, zlib.error, gzip.BadGzipFile):
            raise FileError(Problem(CUT, advice=AGAIN), file=str(path)) from None
        except FileError as error:
            raise FileError(error.problems, file=str(path)) from None


class _Text:
    """A window of text that moves over a file.

    Attributes:
        text: the window.
        place: where in it the next value begins.
        before: the characters of the file before the window.
    """

    def __init__(self, file: IO[str]) -> None:
        self.file, self.text, self.place, self.before, self.ended = file, "", 0, 0, False
        self.decode = json.JSONDecoder(strict=False).raw_decode

    def grow(self) -> bool:
        """Reads on, and forgets what is before `place`; false at the end of the file."""
        more = "" if self.ended else self.file.read(WINDOW)
        self.ended = not more
        self.text, self.before, self.place = self.text[self.place :] + more, self.before + self.place, 0
        return bool(more)

    def next(self) -> str:
        """The next character that is neither blank nor a comma, which is not passed; empty at the end of the file."""
        while True:
            self.place = BLANK.match(self.text, self.place).end()  # type: ignore[union-attr]
            if self.place < len(self.text) or not self.grow():
                return self.text[self.place : self.place + 1]

    def value(self) -> Any:
        """The next value, which is passed.

        Raises:
            FileError: if it is no JSON, or if the file ends in it.
        """
        while True:
            try:
                value, end = self.decode(self.text, self.place)
            except json.JSONDecodeError as error:
                if len(self.text) - self.place < LONGEST and self.grow():
                    continue
                raise self._wrong(error) from None
            if end == len(self.text) and isinstance(value, int | float) and self.grow():
                continue  # the number may go on
            self.place = end
            return value

    def passed(self, mark: str) -> bool:
        """Whether the next character is this one, which is then passed.

        Raises:
            FileError: at the end of the file.
        """
        if not (found := self.next()):
            raise FileError(Problem(CUT, advice=AGAIN))
        self.place += found == mark
        return found == mark

    def _wrong(self, error: json.JSONDecodeError) -> FileError:
        """The error of a value that is no JSON."""
        if self.ended:
            return FileError(Problem(CUT, advice=AGAIN))
        shown = quoted(self.text[error.pos : error.pos + 20])
        return FileError(Problem(f"{shown} is no JSON ({error.msg})", f"character {self.before + error.pos + 1}"))


def _values(text: _Text, list_name: str) -> Iterator[tuple[str, Any]]:
    """The values of an object, or the items of a list."""
    first = text.next()
    text.place += 1
    if first == "[":
        yield from ((list_name, item) for item in _items(text, may_lack_its_end=True))
        return
    if first != "{":
        begin = quoted(text.text[text.place - 1 :][:20])
        raise FileError(Problem(f"it begins with {begin} and is no JSON object", advice=AGAIN if not first else ""))
    while not text.passed("}"):
        name = text.value()
        if not text.passed(":"):
            raise FileError(Problem(f"no value follows {quoted(name)}", f"character {text.before + text.place + 1}"))
        if name == list_name and text.passed("["):
            yield from ((list_name, item) for item in _items(text))
        elif text.next():
            yield name, text.value()


def _items(text: _Text, may_lack_its_end: bool = False) -> Iterator[Any]:
    """The items of a list whose begin is passed."""
    while not (may_lack_its_end and not text.next()) and not text.passed("]"):
        yield text.value()
