"""How many columns the output has, and texts that are wrapped to fit them."""

from __future__ import annotations

import re
import shutil
from textwrap import wrap

# The most columns of a line: longer ones are hard to read. The least for which lines are composed; and the columns of a
# file, a pipe or a mail, where nobody says how wide it is.
MOST, LEAST, UNKNOWN = 100, 40, 80
# What stands between phrases that keep together; a blank at which no line ends; the blanks before a unit, beside a sign and
# in an option.
GAP, FIXED, BEFORE_UNIT = "     ", "\u00a0", re.compile(r"(?<=[\d±]) (?=\S)| (?=±)|(?<=--set) ")


def columns() -> int:
    """The columns of a line, from 40 to 100: those of the terminal or of the variable COLUMNS; 80 if both are unknown."""
    width = shutil.get_terminal_size((UNKNOWN, 24)).columns
    return min(max(width, LEAST), MOST)


def wrapped(text: str, room: int) -> list[str]:
    """A text as lines of at most `room` columns. No line ends between a number and its unit, or inside a phrase."""
    phrases = [phrase.replace(" ", FIXED) if GAP in text else phrase for phrase in text.split(GAP)]
    together = BEFORE_UNIT.sub(FIXED, GAP.join(phrases))
    lines = wrap(together, room, break_long_words=False, break_on_hyphens=False)
    return [line.replace(FIXED, " ") for line in lines]
