"""The answer in words, and all results by name."""

from __future__ import annotations

import re

from amped.estimation.estimation import Estimation
from amped.report import human, screen
from amped.report.page.content import Section, table
from amped.report.page.numbers import headline, numbers


def heading(e: Estimation) -> tuple[str, str]:
    """What is trained on what, and how the work is divided."""
    return screen.what_is_trained(e), screen.how_it_is_divided(e)


def answer(e: Estimation, change: str | None = None, *, other_runs: bool = False) -> Section:
    """The answers of `amped estimate`, as a section with the first numbers; `change` as in `screen.fit`.

    With `other_runs` it has the times of the other manner of the software and of a first run, too.
    """
    lines = [("", line) for line in screen.not_modeled_first(e)]
    lines += [(word, re.sub(r" {2,}", "; ", text)) for word, text, _ in screen.answers(e, change)]
    lines += screen.other_runs_in_words(e) if other_runs else []
    lines.append(("WHERE", where(e)))
    wait = screen.longest_wait(e)
    lines += [("SLOW BY", f"{wait}; `amped why` says what helps")] if wait else []
    lines += [("ASSUMED", screen.assumed(e)), ("EVIDENCE", e.grade)]
    lines += [("ANCHORED", e.anchored_on)] if e.anchored_on else []
    lines += [("", note) for note in screen.notes(e)]
    return Section("answer", "The answer", lines, headline(numbers(e)))


def where(e: Estimation) -> str:
    """The shares of the parts of a step, in words; parts below half a percent are left out."""
    parts = (
        f"{part} {human.percent(share, 0)}" for part, share in screen.shares(e).items() if share >= screen.LEAST_SHARE
    )
    return ", ".join(parts)


def all_numbers(e: Estimation) -> Section:
    """A table of all results, under their names in `amped estimate --json`, with all digits."""
    rows = [(number.name, number.told, number) for number in numbers(e).values()]
    line = "Numbers are in SI units (s, byte, flop/s, J), money in USD; fractions are of 1."
    return Section(
        "numbers",
        "All results",
        [("", line)],
        tables=[table("All results", ("name", "told|in words", "value|exactly, in SI units|exact"), rows)],
    )
