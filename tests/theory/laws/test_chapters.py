"""The theory reads forwards: what a formula needs stands in its own chapter or in an earlier one."""

from collections import defaultdict

from amped.theory.language.catalogue import CHAPTERS, Formula, catalogue
from tests.helpers.culprits import for_each

FORMULAS = [formula for quantity in catalogue().values() for formula in quantity.formulas]
MOST_EXCEPTIONS = 20
# Names that formulas of earlier chapters take, and why. The list only shrinks.
EXCEPTIONS = {
    "batch_size": "files of fine-tuning say micro-batches and replicas, which multiply to the batch (mapping/degrees)",
    "output_head_panel_durations": "SUMMA is whole on its page: how long its panels take at the output head",
}


def chapter(formula: Formula) -> int:
    """Place of a formula's chapter in the book."""
    return CHAPTERS.index(formula.page.split("/")[0])


def homes() -> dict[str, int]:
    """The last chapter in which a name has a formula. The closed form, at the end, replaces names of all chapters."""
    own = defaultdict(list)
    for formula in FORMULAS:
        own[formula.name].append(chapter(formula))
    last = len(CHAPTERS) - 1
    return {name: max((c for c in places if c < last), default=last) for name, places in own.items()}


def backward(formula: Formula, known: dict[str, int]) -> list[str]:
    """The arguments of a formula that stand in a later chapter."""
    return [name for name in formula.arguments if known[name.partition("__")[0]] > chapter(formula)]


HOMES = homes()


def test_every_formula_is_in_a_chapter() -> None:
    assert {formula.page.split("/")[0] for formula in FORMULAS} == set(CHAPTERS)


@for_each(sorted({formula.page for formula in FORMULAS}))
def test_arguments_come_from_the_same_or_an_earlier_chapter(page: str) -> None:
    found = {name for formula in FORMULAS if formula.page == page for name in backward(formula, HOMES)}
    assert found <= set(EXCEPTIONS)


def test_every_exception_is_needed_and_says_why() -> None:
    found = {name for formula in FORMULAS for name in backward(formula, HOMES)}
    assert found == set(EXCEPTIONS)
    assert all(EXCEPTIONS.values())
    assert len(EXCEPTIONS) <= MOST_EXCEPTIONS


def test_an_argument_from_a_later_chapter_would_be_seen() -> None:
    (formula,) = catalogue()["training_time"].formulas
    assert backward(formula, HOMES | {"step_time": len(CHAPTERS)}) == ["step_time"]
