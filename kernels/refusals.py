"""How an unknown name is refused, and how a library's error is told."""

from __future__ import annotations

from collections.abc import Iterable

from amped.base.errors import ConfigError, did_you_mean


def refuse_unknown(name: str, known: Iterable[str], told: str) -> None:
    """Refuses a name that is not known, with the nearest one, or with all.

    Raises:
        ConfigError: if it is not known.
    """
    names = list(known)
    if name not in names:
        raise ConfigError(told, did_you_mean(name, names) or f"there are {', '.join(names)}")


def is_out_of_memory(error: BaseException) -> bool:
    """Whether an error is that of a memory that is full: of Python, of a processor or of a GPU."""
    message = str(error).lower()
    return isinstance(error, MemoryError) or "out of memory" in message or "allocate memory" in message


def first_line(error: BaseException) -> str:
    """What an error says in its first line; the name of its class if it says nothing."""
    return (str(error).strip().splitlines() or [type(error).__name__])[0]
