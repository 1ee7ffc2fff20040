"""How long a case may take: its processor's time, and, as machines are loaded, a generous time of the clock."""

import signal
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

# Times the processor's time: the clock's.
GENEROUS = 20


class TooLongError(BaseException):
    """A case that does not end; no `except Exception` of what it asks catches this."""


@contextmanager
def limited(seconds: float) -> Iterator[None]:
    """Ends what runs inside, and any wait, after so much time of the processor."""

    def late(number: int, _: Any) -> None:
        raise TooLongError(f"takes more than {seconds:g} s" + " of the clock" * (number == signal.SIGALRM))

    before = [(each, signal.signal(each, late)) for each in (signal.SIGPROF, signal.SIGALRM)]
    signal.setitimer(signal.ITIMER_PROF, seconds)
    signal.setitimer(signal.ITIMER_REAL, seconds * GENEROUS)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
        signal.setitimer(signal.ITIMER_REAL, 0)
        for each, own in before:
            signal.signal(each, own)
