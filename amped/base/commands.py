"""Commands and options as text that a shell reads as it is meant: whatever amped prints to type is made here."""

from __future__ import annotations

import shlex


def typed(*words: object) -> str:
    """Words as a shell takes them, each quoted where it has a blank, a quote or another character that the shell would read."""
    return shlex.join(map(str, words))


def command(*words: object) -> str:
    """A whole command of amped."""
    return typed("amped", *words)


def set_option(name: str, value: object) -> str:
    """The option that gives a value."""
    return typed("--set", f"{name}={value}")
