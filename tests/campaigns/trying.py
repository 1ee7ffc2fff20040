"""Tries one case, and makes a case that fails smaller."""

import os
import time
import traceback
import warnings
from itertools import islice

from tests.campaigns.limits import TooLongError, limited
from tests.campaigns.records import Case, Failure, Kind, Seen, with_less

# So long a failure is made smaller at most.
MOST_SECONDS = 60.0


def tried(kind: Kind, case: Case) -> tuple[Seen, Failure | None]:
    """What a case led to, and the failure if it failed. Warnings are failures, as they are in tests."""
    try:
        with warnings.catch_warnings(), limited(kind.seconds):
            warnings.simplefilter("error")
            seen = kind.run(case)
    except TooLongError as late:
        return Seen("hangs", answered=0), Failure(kind.name, "hangs", f"hangs: {late}, in {_place(late)}", case)
    except Exception as error:
        what = f"{type(error).__name__} in {_place(error)}"
        return Seen(what, answered=0), Failure(kind.name, what, f"{what}: {str(error)[:400]}", case)
    if not seen.wrong:
        return seen, None
    return seen, Failure(kind.name, seen.wrong.partition(":")[0], seen.wrong, case)


def _place(error: BaseException) -> str:
    """The innermost line of amped's that an error came through."""
    frames = [frame for frame in traceback.extract_tb(error.__traceback__) if frame.name != "late"]
    own = [f for f in frames if f"{os.sep}amped{os.sep}" in f.filename and "site-packages" not in f.filename] or frames
    last = own[-1]
    inside = last.filename.rpartition(f"{os.sep}amped{os.sep}")[2].rpartition(f"{os.sep}campaigns{os.sep}")[2]
    return f"{inside}:{last.name}"


def smallest(kind: Kind, failure: Failure) -> Failure:
    """The same failure with as little as it needs: greedily, one entry after the other is left out."""
    end = time.monotonic() + MOST_SECONDS
    shrank = True
    while shrank:
        shrank, place = False, 0
        while time.monotonic() < end:
            less = next(islice(with_less(failure.case), place, None), None)
            if less is None:
                break
            _, other = tried(kind, less)
            if other is not None and other.sign == failure.sign:
                failure, shrank = other, True  # what comes next stands at the same place now
            else:
                place += 1
    return failure
