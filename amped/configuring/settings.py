"""The value that a text means as a setting, on the command line or in a cell of a table."""

from __future__ import annotations

# No number has more digits; a longer text would only be slow to read.
LONGEST_NUMBER = 100


def setting(written: str) -> object:
    """The value of a text: a boolean or a number if the text is one; else the text, without double quotes around it."""
    if len(written) > 2 and written[0] == written[-1] == '"' and '"' not in written[1:-1]:
        return written[1:-1]
    truth = {"true": True, "false": False}.get(written.lower())
    return _number(written) if truth is None else truth


def _number(written: str) -> object:
    """An int or a float if the text is one; else the text."""
    for kind in (int, float):
        try:
            return kind(written) if len(written) < LONGEST_NUMBER else written
        except ValueError:
            continue
    return written
