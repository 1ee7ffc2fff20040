"""All sections of a report: for each topic, that of each configuration."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from amped.base.aliases import aliases
from amped.configuring.scenario import Scenario
from amped.drafting.asking import Asking
from amped.estimation.estimation import Estimation, estimated
from amped.exploration.answer import Exploration
from amped.report.page import again, answer, grounds, memory, roofline, searched, sensitivity, step
from amped.report.page.beside import LETTERS, beside
from amped.report.page.content import Section
from amped.report.page.ranked import ranked
from amped.sensitivities.analysis import analyzed

# The names that say how large the machine is.
SIZES = ("number_of_accelerators", "number_of_nodes")


@dataclass(frozen=True)
class Asked:
    """A configuration of a report: its estimate, and what gives its scenario with other values for a search."""

    estimation: Estimation
    asks: searched.Asks


def asked_of(asking: Asking, more: Mapping[str, object] | None = None) -> Asked:
    """The configuration that somebody asks for, with what nobody gave chosen.

    Args:
        asking: what is asked.
        more: further values, such as those that a search found; searches from the page do not hold them.

    Raises:
        AmpedError: with all that is wrong with it.
    """
    e = estimated(asking._replace(values={**asking.values, **(more or {})}).completed())
    sizes = {name for name in asking.values if aliases().canonical(name) in SIZES}
    without = asking._replace(values={n: value for n, value in asking.values.items() if n not in sizes})

    def asks(values: Mapping[str, object]) -> Scenario:
        if values or not without.leaves_open():
            return without._replace(values={**without.values, **values}).searched({})[0]
        return without.searched({SIZES[0]: (e[SIZES[0]],)})[0]

    return Asked(e, asks)


@dataclass(frozen=True)
class Topic:
    """A topic of a page, with the section of each configuration by its place."""

    id: str
    title: str
    sections: Sequence[tuple[int, Section]]


@dataclass(frozen=True)
class Heading:
    """A configuration in the head of a page."""

    letter: str
    what: str
    how: str


def headings(configs: Sequence[Asked]) -> list[Heading]:
    """What each configuration is."""
    estimations = zip(LETTERS, (config.estimation for config in configs), strict=False)
    return [Heading(letter, *answer.heading(e)) for letter, e in estimations]


def found_topics(exploration: Exploration, config: Asked, tell: Callable[[str], None] = lambda _: None) -> list[Topic]:
    """What a search found, and all topics of the best mapping, which is the one that is asked."""
    section = ranked(exploration)
    return [Topic(section.id, section.title, [(0, section)]), *topics([config], tell)]


def topics(configs: Sequence[Asked], tell: Callable[[str], None] = lambda _: None) -> list[Topic]:
    """All topics, in the order of a page; `tell` is told what is being worked on."""
    pages = []
    for place, config in enumerate(configs, 1):
        tell(f"{config.estimation.scenario.title}: search and sensitivity ({place} of {len(configs)})")
        pages.append(sections(config))
    together = [[beside([config.estimation for config in configs])]] if len(configs) > 1 else []
    return [Topic(of[0].id, of[0].title, [*enumerate(of)]) for of in (*together, *zip(*pages, strict=True))]


def sections(config: Asked) -> list[Section]:
    """The sections of one configuration."""
    e = config.estimation
    search = searched.quick_search(e, config.asks)
    return [
        answer.answer(e), step.parts(e), memory.memory(e), step.timeline(e), roofline.roofline(e),
        searched.scaling(e, search), searched.pareto(search), sensitivity.sensitivity(analyzed(e.scenario)),
        grounds.assumed(e), grounds.accuracy(e), again.again(e), answer.all_numbers(e),
    ]  # fmt: skip
