"""The table of the parallelisms. Formulas, options, searches and reports are written for its rows, not for names."""

from __future__ import annotations

from amped.base.record import dataclass


@dataclass(frozen=True)
class Parallelism:
    """A way to distribute the work over accelerators.

    Attributes:
        name: the name in its quantities: `NAME_parallel_degree`, `exposed_NAME_communication_time`, ….
        option: the short name of its degree: an option of the command line, and a column of tables.
        place: the position of its degree in a written mapping. None if its groups use the accelerators of other
            parallelisms, so that its degree is not a factor of the number of accelerators.
        splits: what each accelerator of a group gets a share of: weights, tokens (of each sequence), experts, layers or
            sequences. A group that splits weights, tokens or experts communicates in every pass of a layer. A group
            that splits tokens or sequences holds copies of the same weights.
        counted: what its degree counts, in words.
        source: where its messages in a layer are described, or else its degree.
    """

    name: str
    option: str
    place: int | None
    splits: str
    counted: str
    source: str


# The rows have the order in which reports list the parts of a step. Parallelisms that communicate in every pass of a
# layer also have the order in which they take places in the fast domain, and in which their messages are counted.
ROWS = (
    Parallelism(
        "tensor",
        "tp",
        place=1,
        splits="weights",
        counted="accelerators that each hold a share of every weight matrix",
        source="arXiv 1909.08053, section 3",
    ),
    Parallelism(
        "pipeline",
        "pp",
        place=2,
        splits="layers",
        counted="pipeline stages that each hold a share of the layers",
        source="arXiv 2104.04473, section 2.2",
    ),
    Parallelism(
        "data",
        "dp",
        place=0,
        splits="sequences",
        counted="replicas that each process a share of the batch",
        source="arXiv 2104.04473, section 2",
    ),
    Parallelism(
        "context",
        "cp",
        place=3,
        splits="tokens",
        counted="accelerators that each process a share of a sequence",
        source="arXiv 2310.01889, section 3",
    ),
    Parallelism(
        "expert",
        "ep",
        place=None,
        splits="experts",
        counted="accelerators that each hold a share of the experts",
        source="arXiv 2006.16668, section 3",
    ),
)


def splitting(*shares: str) -> tuple[str, ...]:
    """The names of the parallelisms whose `splits` is one of the given words, in the order of `ROWS`."""
    return tuple(row.name for row in ROWS if row.splits in shares)


# The short names of their degrees.
OPTIONS = {row.name: row.option for row in ROWS}
PARALLELISMS = tuple(row.name for row in ROWS)
# The parallelisms whose degrees multiply to the number of accelerators, in the order of a written mapping.
PLACED = tuple(row.name for place in range(len(ROWS)) for row in ROWS if row.place == place)
# All parallelisms in that order.
WRITTEN = (*PLACED, *(row.name for row in ROWS if row.place is None))
# The parallelisms that communicate in every pass of a layer.
IN_LAYERS = splitting("weights", "tokens", "experts")
# Those of them beside whose messages kernels of the same micro-batch may run; and those that are placed first.
BESIDE_KERNELS = INNERMOST = splitting("weights", "tokens")
# The parallelisms that split each sequence, those whose accelerators hold copies of the same weights, and all that
# distribute the work of one pipeline stage.
OF_TOKENS = splitting("tokens")
COPYING = splitting("sequences", "tokens")
OF_A_STAGE = (*COPYING, *splitting("weights"))


def before(name: str, names: tuple[str, ...]) -> tuple[str, ...]:
    """The part of `names` that stands before `name`."""
    return names[: names.index(name)]


def in_words(names: tuple[str, ...]) -> str:
    """The names as a text, such as `a, b and c`; at least two names."""
    return " and ".join((", ".join(names[:-1]), names[-1]))
