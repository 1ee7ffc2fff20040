"""An output on which each character shows what it is."""

from __future__ import annotations

import re
from typing import Any, TextIO, cast

from amped.base.printable import escaped

# Characters that turn the direction of writing, so that a text reads as another one.
TURNING = re.compile("[\u202a-\u202e\u2066-\u2069]")


class Visible:
    """A text stream that writes characters which turn the direction of writing by their numbers; in all else the stream itself."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream

    def write(self, text: str) -> int:
        """Writes a text; characters that turn the direction of writing are written as their numbers."""
        return self._stream.write(TURNING.sub(lambda turning: escaped(turning[0]), text))

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)


def visible(stream: TextIO) -> TextIO:
    """A stream that shows hidden characters; None stays None, which is a stream closed before amped began."""
    return stream if stream is None or isinstance(stream, Visible) else cast(TextIO, Visible(stream))
