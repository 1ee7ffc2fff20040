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
    """A configuration of a report: its estimate, and a function that returns its scenario with other values."""

    estimation: Estimation
    asks: searched.Asks


def asked_of(asking: Asking, more: Mapping[str, object] | None = None) -> Asked:
    """The configuration of a question, with all open values chosen by amped.

    Args:
        asking: the question.
        more: further values, such as those that a search found; searches from the page may change them.

    Raises:
        AmpedError: with all problems of the question.
    """
    e = estimated(asking._replace(values={**asking.values, **(more or {})}).completed())
    sizes = {name for name in asking.values if aliases().canonical(name) in SIZES}
    without_sizes = asking._replace(values={name: value for name, value in asking.values.items() if name not in sizes})

    def asks(values: Mapping[str, object]) -> Scenario:
        """The scenario with these values; without values, with as many accelerators as the estimate has."""
        if values or not without_sizes.leaves_open():
            return without_sizes._replace(values={**without_sizes.values, **values}).searched({})[0]
        return without_sizes.searched({SIZES[0]: (e[SIZES[0]],)})[0]

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
    """The letter, the network and machine, and the mapping of each configuration."""
    estimations = zip(LETTERS, (config.estimation for config in configs), strict=False)
    return [Heading(letter, *answer.heading(e)) for letter, e in estimations]


def found_topics(exploration: Exploration, config: Asked, tell: Callable[[str], None] = lambda _: None) -> list[Topic]:
    """The topic of the search, and all topics of the best mapping, which is `config`."""
    section = ranked(exploration)
    return [Topic(section.id, section.title, [(0, section)]), *topics([config], tell)]


def topics(configs: Sequence[Asked], tell: Callable[[str], None] = lambda _: None) -> list[Topic]:
    """All topics in the order of a page; `tell` is called with a text on the current work."""
    sections_by_config = []
    for place, config in enumerate(configs, 1):
        tell(f"{config.estimation.scenario.title}: search and sensitivity ({place} of {len(configs)})")
        sections_by_config.append(sections(config))
    comparison = [[beside([config.estimation for config in configs])]] if len(configs) > 1 else []
    return [
        Topic(same_topic[0].id, same_topic[0].title, [*enumerate(same_topic)])
        for same_topic in (*comparison, *zip(*sections_by_config, strict=True))
    ]


def sections(config: Asked) -> list[Section]:
    """The sections of one configuration."""
    e = config.estimation
    search = searched.quick_search(e, config.asks)
    return [
        answer.answer(e, other_runs=True), step.parts(e), step.waterfall_of(e), memory.memory(e), step.timeline(e), roofline.roofline(e),
        searched.scaling(e, search), searched.pareto(search), sensitivity.sensitivity(analyzed(e.scenario)),
        grounds.assumed(e), grounds.accuracy(e), again.again(e), answer.all_numbers(e),
    ]  # fmt: skip
