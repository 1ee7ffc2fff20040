"""Every candidate as columns, block by block, on the way to a file of all of them.

Where other processes evaluate, each writes its part to a file, and who leads takes them in order. So the rows are those
of one process, in its order and in its blocks, and no process holds more than a block of them.
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

from amped.base.files import refusals_told

Column = NDArray[Any]
FEASIBLE, FITS = "feasible", "fits_in_memory"


class Keep(Protocol):
    """Whoever takes every candidate in, block by block, in the process that evaluates, in the order of the space."""

    def start(self, kinds: Mapping[str, type]) -> None:
        """The names of the columns, and whether each has numbers, texts or truths."""

    def take(self, columns: Mapping[str, Column]) -> None:
        """The candidates of a block; all columns are of one length, and a name may be missing."""


class Written:
    """Takes the candidates of one part in, in the process that evaluates it."""

    def __init__(self, stream: IO[bytes]) -> None:
        self._stream = stream

    def start(self, kinds: Mapping[str, type]) -> None:
        """Who leads knows the columns."""

    def take(self, columns: Mapping[str, Column]) -> None:
        """Writes a block."""
        pickle.dump(dict(columns), self._stream, protocol=pickle.HIGHEST_PROTOCOL)


@contextmanager
def written(folder: str, part: int) -> Iterator[Written]:
    """The file of a part; of one that is evaluated again it begins anew.

    Raises:
        FileError: if it cannot be written.
    """
    path = _file(Path(folder), part)
    advice = "every worker must reach the folder of --output: make room, or choose another"
    with refusals_told("written", path, advice), path.open("wb") as stream:
        yield Written(stream)


class Spool:
    """Hands the candidates of finished parts on, in the order of the parts."""

    def __init__(self, folder: str, keep: Keep, parts: Iterable[int]) -> None:
        self.folder, self._keep = folder, keep
        self._waiting, self._finished = deque(parts), set[int]()

    def finished(self, part: int) -> None:
        """A part is evaluated: it is handed on, with those that waited for it, as soon as all before it are."""
        self._finished.add(part)
        while self._waiting and self._waiting[0] in self._finished:
            path = _file(Path(self.folder), self._waiting.popleft())
            with path.open("rb") as stream:
                while stream.peek(1):
                    self._keep.take(pickle.load(stream))
            path.unlink()


@contextmanager
def spool(beside: Path | None, keep: Keep, parts: Iterable[int]) -> Iterator[Spool]:
    """A spool in a folder of its own, which goes with it.

    Raises:
        FileError: if there can be none.
    """
    with refusals_told("written", beside or Path(tempfile.gettempdir()), "choose another --output"):
        if beside is not None:
            beside.mkdir(parents=True, exist_ok=True)
        folder = tempfile.TemporaryDirectory(prefix=".explore-", dir=beside)
    with folder as name:
        yield Spool(str(Path(name).resolve()), keep, parts)


def _file(folder: Path, part: int) -> Path:
    return folder / f"part-{part}"
