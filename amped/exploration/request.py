"""What is asked of an exploration: plain data, enough to ask it again in another process."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from amped.scenario import Question


@dataclass(frozen=True)
class Options:
    """How an exploration searches and ranks.

    Attributes:
        top: how many of the best are kept.
    """

    top: int = 10


@dataclass(frozen=True)
class Request:
    """An exploration, as it was asked; it can be pickled where `question.formulas` is a file or nothing.

    Attributes:
        question: the config, what overrides it, tables and formulas.
        vary: further sweeps, name to values as written.
    """

    question: Question
    vary: Mapping[str, tuple[object, ...]] = field(default_factory=dict)
    options: Options = Options()
