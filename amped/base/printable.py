"""Text of a foreign file, as it may be printed."""

from __future__ import annotations

import unicodedata

# Control characters, which terminals obey; characters without a form, as those that turn the direction of a line; halves of
# pairs, which no encoding takes; and separators, which end a line.
OBEYED = frozenset({"Cc", "Cf", "Cs", "Zl", "Zp"})


def printable(text: str) -> str:
    """The text with an escape (backslash, x, two digits) for each character that would do something on a terminal; ends of lines stay."""
    if text.isprintable():
        return text
    return "".join(escaped(letter) if unicodedata.category(letter) in OBEYED else letter for letter in text)


def escaped(letter: str) -> str:
    """The escape of a character; the end of a line stays."""
    return letter if letter == "\n" else letter.encode("unicode_escape").decode("ascii")
