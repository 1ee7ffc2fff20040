"""One test for many cases: it runs its check on each of them, and lists those that fail."""

from collections.abc import Callable, Iterable
from typing import Any

import pytest

# What is shown of a case, and of what its check says.
LONGEST = 300


def for_each(cases: Iterable[Any]) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Makes one test of a check: it is called with each case, a tuple of arguments or a single one.

    Fixtures have no place in such a check. Where each case takes seconds, pytest's own parametrization shares them among processes.
    """
    every = [case if isinstance(case, tuple) else (case,) for case in cases]

    def test_of(check: Callable[..., None]) -> Callable[..., None]:
        def test(*of_class: object) -> None:
            assert every, "there is no case"
            refused = {repr(case)[:LONGEST]: told for case in every if (told := _refusal(check, *of_class, *case))}
            if refused:
                lines = "\n".join(f"{case}: {told}" for case, told in refused.items())
                pytest.fail(f"{len(refused)} of {len(every)} cases fail:\n{lines}", pytrace=False)

        test.__name__, test.__qualname__, test.__doc__ = check.__name__, check.__qualname__, check.__doc__
        test.__module__ = check.__module__
        return test

    return test_of


def _refusal(check: Callable[..., None], *arguments: object) -> str:
    """What a check says of a case; nothing where it holds."""
    try:
        check(*arguments)
    except Exception as error:
        return f"{type(error).__name__}: {error}"[:LONGEST]
    return ""
