"""The family of errors, and the one form in which mistakes are reported.

    AmpedError                  everything a user can mend; the command line exits with 2
    ├── FileError               a file that cannot be read, parsed or written
    ├── UnitError               a value with another unit than expected
    ├── TableError              a lookup table, row or column
    ├── ConfigError             a config: structure, names, values
    ├── WiringError             the catalogue of formulas itself
    ├── ResolveError            an input that is missing, a cycle
    ├── MappingError            a mapping that no machine can run
    └── EvaluationError         a formula that failed or gave no finite number
    WrongResultError            a result that breaks a law: amped's mistake; the command line exits with 1

Deep code states the small fact. The code that talks to the user adds the file, the JSON path, who needed the value and
what to do. An error carries every problem that was found, not only the first.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace

from amped.base.record import dataclass
from amped.base.words import Answer, answers
from amped.base.words import plain as plain

LONGEST_QUOTE = 60
# From how many letters on a word of the field may be what a mistyped one means, and how like both must be then.
SHORTEST_NEAR, LEAST_NEAR = 4, 0.8


@dataclass(frozen=True)
class Problem:
    """One problem: what is wrong, where, and what to do about it."""

    what: str
    where: str = ""
    advice: str = ""

    def __str__(self) -> str:
        place = f"{self.where}: " if self.where else ""
        advice = f"\n    {self.advice}" if self.advice else ""
        return f"{place}{self.what}{advice}"


class AmpedError(Exception):
    """A mistake that the user can mend; `problems` holds all that were found, `file` the file where they are."""

    def __init__(self, problems: str | Problem | Iterable[Problem], advice: str = "", file: str = "") -> None:
        if isinstance(problems, str):
            problems = Problem(problems, advice=advice)
        self.problems = (problems,) if isinstance(problems, Problem) else tuple(problems)
        self.file = file
        super().__init__(str(self))

    def __str__(self) -> str:
        head = [f"{self.file}:"] if self.file else []
        if len(self.problems) > 1:
            head = [f"{head[0] if head else ''} {len(self.problems)} problems".strip()]
        return "\n".join([*head, *(("  " if head else "") + str(p) for p in self.problems)])

    def __reduce__(self) -> tuple[type[AmpedError], tuple[tuple[Problem, ...], str, str]]:
        """Keeps an error unchanged on its way from another process."""
        return type(self), (self.problems, "", self.file)

    def at(self, where: str) -> list[Problem]:
        """The problems of this error, at the place `where`, with the file that they are in."""
        if self.file:
            return [replace(p, where=": ".join(filter(None, (where, self.file, p.where)))) for p in self.problems]
        return [replace(p, where=p.where or where) for p in self.problems]


class FileError(AmpedError):
    """A file that cannot be read, parsed or written."""


class UnitError(AmpedError):
    """A value with another unit than expected."""


class TableError(AmpedError):
    """A lookup table, row or column that does not exist or is wrong."""


class ConfigError(AmpedError):
    """A config whose structure, names or values are wrong."""


class WiringError(AmpedError):
    """Formulas that contradict one another; found when the catalogue is built."""


class ResolveError(AmpedError):
    """An input that nobody gives, or quantities that need each other in a circle."""


class MappingError(AmpedError):
    """A mapping of the model onto the machine that cannot run."""


class EvaluationError(AmpedError):
    """A formula that failed, or whose result is not a finite number."""


class WrongResultError(Exception):
    """A result that cannot be right: a mistake of amped's, not of the user.

    Attributes:
        broken: the laws that the result breaks.
        config: what the user gave, by name.
    """

    def __init__(self, broken: Sequence[str], config: Mapping[str, object]) -> None:
        self.broken, self.config = tuple(broken), dict(config)
        super().__init__("; ".join(broken))


@contextmanager
def collected(problems: list[Problem], where: str = "") -> Iterator[None]:
    """Collects the problems raised inside, at the place `where`, so that the code after it is checked, too."""
    try:
        yield
    except AmpedError as error:
        problems += error.at(where)


def quoted(value: object) -> str:
    """The value as JSON, cut to a length that fits a message."""
    if value is None or isinstance(value, bool):
        return {None: "null", True: "true", False: "false"}[value]
    try:
        text = repr(value) if isinstance(value, str) else str(value)
    except ValueError:  # Python does not write integers of thousands of digits
        return "an integer of thousands of digits"
    return text if len(text) <= LONGEST_QUOTE else f"{text[:LONGEST_QUOTE]}… ({len(text)} characters)"


def one_line(error: AmpedError) -> str:
    """All problems of an error in one line, for a table."""
    return "; ".join(str(problem).replace("\n    ", ", ") for problem in error.problems)


def did_you_mean(word: str, options: Iterable[str]) -> str:
    """The text `did you mean 'X' or 'Y'?` with the nearest options, or an empty text.

    If amped has an answer for the word, the text is that answer. Else letters are compared with those of the options, and
    with words that have an answer; such a word is taken if it is nearer than every option.
    """
    by_plain = {plain(option): option for option in options if option != word}
    word = plain(word[:200])
    if word in answers() and word not in by_plain:
        return str(answers()[word])
    near = difflib.get_close_matches(word, by_plain, n=3, cutoff=0.6)
    order = [*by_plain]  # of names that are equally near, the one that stands first
    near.sort(key=lambda key: (-_likeness(word, key), order.index(key)))
    if (answer := _near_word(word, above=_likeness(word, near[0]) if near else 0.0)) is not None:
        return f"did you mean '{answer.word}'? {answer}"
    near += [key for key in by_plain if word and key.startswith(word) and key not in near][: 3 - len(near)]
    *others, last = [f"'{by_plain[key]}'" for key in near] or [""]
    return f"did you mean {' or '.join(filter(None, (', '.join(others), last)))}?" if last else ""


def _near_word(word: str, above: float) -> Answer | None:
    """The answer for the known word that is most like `word`, if its likeness is higher than `above`; else None.

    Known words of fewer than `SHORTEST_NEAR` letters are not compared.
    """
    long_words = [other for other in answers() if len(other) >= SHORTEST_NEAR]
    near = difflib.get_close_matches(word, long_words, n=1, cutoff=LEAST_NEAR)
    return answers()[near[0]] if near and _likeness(word, near[0]) > above else None


def _likeness(one: str, other: str) -> float:
    """The likeness of two words by their letters, from 0 to 1."""
    return difflib.SequenceMatcher(None, one, other).ratio()
