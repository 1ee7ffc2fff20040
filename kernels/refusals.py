"""How an unknown name is refused, and how a library's error is told."""

from __future__ import annotations

from collections.abc import Iterable

from amped.base.errors import ConfigError, did_you_mean


def refuse_unknown(name: str, known: Iterable[str], told: str) -> None:
    """Refuses a name that is not one of the known names; the advice is the nearest one, or all of them.

    Raises:
        ConfigError: with `told` as the problem, if the name is not known.
    """
    names = list(known)
    if name not in names:
        raise ConfigError(told, did_you_mean(name, names) or f"there are {', '.join(names)}")


def is_out_of_memory(error: BaseException) -> bool:
    """Whether an error says that a memory is full: Python's, a processor's or a GPU's."""
    message = str(error).lower()
    return isinstance(error, MemoryError) or "out of memory" in message or "allocate memory" in message


def first_line(error: BaseException) -> str:
    """The first line of an error's message; the name of the error's class if the message is empty."""
    return (str(error).strip().splitlines() or [type(error).__name__])[0]
