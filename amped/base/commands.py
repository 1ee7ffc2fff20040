"""Commands and options as text that a shell reads as it is meant: whatever amped prints to type is made here."""

from __future__ import annotations

import re
import shlex
from collections.abc import Sequence

# The words of a command; a blank in quotes is no end of a word.
WORDS = re.compile(r"""(?:[^\s"']|"[^"]*"|'[^']*')+""")


def typed(*words: object) -> str:
    """Words joined to a command line, each quoted if a shell would read one of its characters: a blank, a quote and so on."""
    return shlex.join(map(str, words))


def command(*words: object) -> str:
    """A shell command that starts with `amped`; each word is quoted if the shell needs it.

    command("list", "models") gives "amped list models".
    """
    return typed("amped", *words)


def set_option(name: str, value: object) -> str:
    """The option `--set name=value`, quoted if the shell needs it."""
    return typed("--set", f"{name}={str(value).lower() if isinstance(value, bool) else value}")


def broken(text: str, room: int) -> list[str]:
    """A command as lines of at most `room` columns.

    Each line but the last ends with a backslash, so that the shell reads on. An option and its value stay on one line.
    """
    if len(text) <= room:
        return [text]
    lines = [""]
    for part in _parts(WORDS.findall(text)):
        if lines[-1] and len(lines[-1]) + len(part) + 3 > room:
            lines[-1] += " \\"
            lines.append(f"  {part}")
        else:
            lines[-1] += f" {part}" if lines[-1] else part
    return lines


def _parts(words: Sequence[str]) -> list[str]:
    """The words of a command, with each option and its value joined to one text."""
    parts: list[str] = []
    for word in words:
        if parts and not word.startswith("-") and parts[-1].startswith("-") and " " not in parts[-1]:
            parts[-1] += f" {word}"
        else:
            parts.append(word)
    return parts
