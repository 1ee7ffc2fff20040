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
        """Takes the type of each column, by its name: float, str or bool."""

    def take(self, columns: Mapping[str, Column]) -> None:
        """Takes the candidates of a block. All columns have one length; a column of `start` may be missing."""


class Written:
    """Writes the candidates of one part to a file, in the process that evaluates it."""

    def __init__(self, stream: IO[bytes]) -> None:
        self._stream = stream

    def start(self, kinds: Mapping[str, type]) -> None:
        """Does nothing: the leading process knows the columns."""

    def take(self, columns: Mapping[str, Column]) -> None:
        """Appends the candidates of a block to the file."""
        pickle.dump(dict(columns), self._stream, protocol=pickle.HIGHEST_PROTOCOL)


@contextmanager
def written(folder: str, part: int) -> Iterator[Written]:
    """Opens the file for the candidates of a part. If the part was evaluated before, its file is replaced.

    Raises:
        FileError: if the file cannot be written.
    """
    path = _file(folder, part)
    advice = "every worker must reach the folder of --output: make room, or choose another"
    with refusals_told("written", path, advice), path.open("wb") as stream:
        yield Written(stream)


class Spool:
    """Reads the files of finished parts, and gives their candidates to `keep`, in the order of the parts."""

    def __init__(self, folder: str, keep: Keep, parts: Iterable[int]) -> None:
        self.folder, self._keep = folder, keep
        self._waiting, self._finished = deque(parts), set[int]()

    def finished(self, part: int) -> None:
        """Takes note of a finished part.

        As soon as all parts before a finished part are finished, its candidates are passed on, and its file is deleted.
        """
        self._finished.add(part)
        while self._waiting and self._waiting[0] in self._finished:
            path = _file(self.folder, self._waiting.popleft())
            with path.open("rb") as stream:
                while stream.peek(1):
                    self._keep.take(pickle.load(stream))
            path.unlink()


@contextmanager
def spool(parent: Path | None, keep: Keep, parts: Iterable[int]) -> Iterator[Spool]:
    """Opens a spool with a temporary folder of its own.

    Args:
        parent: the folder where the temporary folder is made; None: the folder for temporary files of the system.
        keep: gets the candidates.
        parts: the numbers of all parts, in order.

    Raises:
        FileError: if the folder cannot be made.
    """
    parent = parent or Path(tempfile.gettempdir())
    with refusals_told("written", parent, "choose another --output"):
        parent.mkdir(parents=True, exist_ok=True)
        without_leftovers(parent)
        folder = tempfile.TemporaryDirectory(prefix=temporary_name(), dir=parent)
    with folder as name:
        yield Spool(str(Path(name).resolve()), keep, parts)


def _file(folder: str, part: int) -> Path:
    return Path(folder, f"part-{part}")
