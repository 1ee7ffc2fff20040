"""Every candidate as columns, block by block, on its way to a file.

If other processes evaluate, each writes its parts to files, and the leading process reads these in order. The rows and
blocks are therefore those of a run in one process, and no process holds more than one block.
"""

from __future__ import annotations

import pickle
import tempfile
from collections import deque
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any, Protocol

from numpy.typing import NDArray

from amped.base.files import refusals_told, temporary_name, without_leftovers

Column = NDArray[Any]
FEASIBLE, FITS = "feasible", "fits_in_memory"


class Keep(Protocol):
    """Takes every candidate, block by block, in the order of the space."""

    def start(self, kinds: Mapping[str, type]) -> None:
        """Takes the names of the columns, and whether each holds numbers, texts or booleans."""

    def take(self, columns: Mapping[str, Column]) -> None:
        """Takes the candidates of a block. All columns have one length, and a column may be missing."""


class Written:
    """Writes the candidates of one part to a file, in the process that evaluates it."""

    def __init__(self, stream: IO[bytes]) -> None:
        self._stream = stream

    def start(self, kinds: Mapping[str, type]) -> None:
        """Does nothing: the leading process knows the columns."""

    def take(self, columns: Mapping[str, Column]) -> None:
        """Writes a block."""
        pickle.dump(dict(columns), self._stream, protocol=pickle.HIGHEST_PROTOCOL)


@contextmanager
def written(folder: str, part: int) -> Iterator[Written]:
    """The file of a part; if the part is evaluated again, the file begins anew.

    Raises:
        FileError: if it cannot be written.
    """
    path = _file(folder, part)
    advice = "every worker must reach the folder of --output: make room, or choose another"
    with refusals_told("written", path, advice), path.open("wb") as stream:
        yield Written(stream)


class Spool:
    """Passes the candidates of finished parts on, in the order of the parts."""

    def __init__(self, folder: str, keep: Keep, parts: Iterable[int]) -> None:
        self.folder, self._keep = folder, keep
        self._waiting, self._finished = deque(parts), set[int]()

    def finished(self, part: int) -> None:
        """Takes note of a finished part.

        It is passed on as soon as all parts before it are, with those that waited for it.
        """
        self._finished.add(part)
        while self._waiting and self._waiting[0] in self._finished:
            path = _file(self.folder, self._waiting.popleft())
            with path.open("rb") as stream:
                while stream.peek(1):
                    self._keep.take(pickle.load(stream))
            path.unlink()


@contextmanager
def spool(beside: Path | None, keep: Keep, parts: Iterable[int]) -> Iterator[Spool]:
    """A spool in a temporary folder of its own.

    Raises:
        FileError: if the folder cannot be made.
    """
    place = beside or Path(tempfile.gettempdir())
    with refusals_told("written", place, "choose another --output"):
        place.mkdir(parents=True, exist_ok=True)
        without_leftovers(place)
        folder = tempfile.TemporaryDirectory(prefix=temporary_name(), dir=place)
    with folder as name:
        yield Spool(str(Path(name).resolve()), keep, parts)


def _file(folder: str, part: int) -> Path:
    return Path(folder, f"part-{part}")
