"""What is asked of an exploration: plain data, enough to ask it again in another process."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from amped.configuring.scenario import Question


@dataclass(frozen=True)
class Options:
    """How an exploration searches and ranks.

    Attributes:
        top: how many of the best are kept (of each group).
        space: which names are searched beside what is swept: a name of `space.SPACES`.
        where: wishes, each a comparison or several joined by "and".
        objective: the quantity to rank by.
        largest: whether the largest is the best; where None, what the objective's name means.
        pareto: two quantities whose front is kept beside.
        each: swept names; each combination of their values has its own best.
        yes: whether a space that takes very long is explored all the same.
    """

    top: int = 10
    space: str = "default"
    where: tuple[str, ...] = ()
    objective: str = "training_time"
    largest: bool | None = None
    pareto: tuple[str, str] | None = None
    each: tuple[str, ...] = ()
    yes: bool = False


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
