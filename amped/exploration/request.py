"""The request of an exploration, as plain data that another process can ask again."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import field

from amped.base.aliases import aliases
from amped.base.record import dataclass
from amped.configuring.scenario import Question


@dataclass(frozen=True)
class Options:
    """How an exploration searches and ranks.

    Attributes:
        top: how many of the best candidates (of each group) are kept.
        space: which names are searched besides those that are swept: a name of `search_space.SPACES`.
        where: wishes, each a comparison or several joined by "and".
        objective: the quantity to rank by.
        largest: whether the largest value is the best; if None, the objective's name decides.
        pareto: two quantities whose Pareto front is kept, too.
        each: swept names; each combination of their values has its own best candidates.
        yes: whether a very large space is explored, too.
    """

    top: int = 10
    space: str = "default"
    where: tuple[str, ...] = ()
    objective: str = "training_time"
    largest: bool | None = None
    pareto: tuple[str, str] | None = None
    each: tuple[str, ...] = ()
    yes: bool = False

    def __post_init__(self) -> None:
        """Takes short names of swept names for amped's."""
        object.__setattr__(self, "each", tuple(map(aliases().canonical, self.each)))


@dataclass(frozen=True)
class Request:
    """The request of an exploration. It can be pickled if `question.formulas` is a file or None.

    Attributes:
        question: the config, the overrides, the tables and the formulas.
        vary: further sweeps: for each name, its values as they are written.
    """

    question: Question
    vary: Mapping[str, Sequence[object]] = field(default_factory=dict)
    options: Options = Options()
