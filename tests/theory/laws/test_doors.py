"""Each chapter has a door: other chapters, rooms, configs, tables and docs name only what it hands on."""

import importlib
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

import amped
from amped.estimation.estimation import DETAILS, MAPPING_ECHO, MODEL_DETAILS, OPTIONAL_RESULTS, RESULTS
from amped.theory.language.catalogue import CHAPTERS, Formula, catalogue, handed_on
from amped.theory.language.doors import near
from tests.helpers.culprits import for_each
from tests.helpers.places import ROOT

KNOWN = catalogue()
MOST_PUBLIC = 887
KEPT = {name for name, quantity in KNOWN.items() if not quantity.is_public}
THEORY = ROOT / "amped" / "theory"
# Made by a command from the catalogue.
GENERATED = ("config.schema.json",)
# What an estimate computes for its results and its screens, where names are put together from words.
ASKED = {
    *RESULTS,
    *OPTIONAL_RESULTS,
    *MAPPING_ECHO,
    *DETAILS,
    *(name for names in MODEL_DETAILS.values() for name in names),
}
# What no chapter, room or page names, and users have measured, or rank by.
FOR_USERS = {
    "average_power_per_accelerator",
    "fullest_stage_parameters",
    "offload_interference_time_per_layer",
    "sustained_matrix_fraction",
    "tied_embedding_communication_time",
}


def home_of(name: str) -> str:
    """The chapter of the name of an argument, which may ask for one kind of layer."""
    return KNOWN[name].chapter


def asked_by(formula: Formula) -> set[str]:
    """All names that a formula takes, gives, or is chosen by."""
    mark = formula.mark
    named = (*mark.when_given, *mark.when_any_given, *mark.even_with, *mark.replaces, mark.choice, mark.constrains)
    return {name.partition("__")[0] for name in (formula.name, *formula.arguments, *filter(None, named))}


@cache
def from_other_chapters() -> dict[str, set[str]]:
    """For each name, the formulas of other chapters that ask for it."""
    askers: dict[str, set[str]] = {}
    for formula in (formula for quantity in KNOWN.values() for formula in quantity.formulas):
        for name in asked_by(formula):
            if home_of(name) != formula.page.split("/")[0]:
                askers.setdefault(name, set()).add(f"{formula.page}: {formula.function.__name__}")
    return askers


def written() -> Iterator[Path]:
    """The sources and the data of other rooms, configs, tables, and the pages that users read."""
    rooms = (path for path in (ROOT / "amped").rglob("*") if THEORY not in path.parents)
    folders = (path for name in ("kernels", "configs", "lookup_tables", "docs") for path in (ROOT / name).rglob("*"))
    texts = (".py", ".json", ".csv", ".js", ".md", ".ipynb")
    yield from (p for p in (*rooms, *folders) if p.suffix in texts and p.name not in GENERATED)
    yield from (ROOT / "README.md", ROOT / "CONTRIBUTING.md")


@cache
def named_elsewhere() -> dict[str, set[str]]:
    """For each name, the files outside the theory that have it; the page in docs/ of its own chapter may."""
    files: dict[str, set[str]] = {}
    for path in written():
        for name in KNOWN.keys() & set(re.findall(r"\w+", path.read_text("utf-8"))):
            if path != ROOT / "docs" / "theory" / f"{home_of(name)}.md":
                files.setdefault(name, set()).add(path.relative_to(ROOT).as_posix())
    return files


@for_each(CHAPTERS)
def test_a_chapter_hands_on_its_own_names_and_each_once(chapter: str) -> None:
    names = importlib.import_module(f"amped.theory.{chapter}").HANDS_ON
    assert len(set(names)) == len(names)
    assert [name for name in names if name not in KNOWN or home_of(name) != chapter] == []
    assert [name for name in names if KNOWN[name].category] == [], "a config lists it, so that it is public"


@for_each(CHAPTERS)
def test_a_chapter_hands_on_nothing_that_nobody_else_uses(chapter: str) -> None:
    used = {*from_other_chapters(), *named_elsewhere(), *ASKED, *FOR_USERS}
    assert handed_on(chapter) - used == set()


def test_formulas_take_only_what_other_chapters_hand_on() -> None:
    assert {name: askers for name, askers in from_other_chapters().items() if name in KEPT} == {}


def test_rooms_configs_tables_and_docs_name_only_what_chapters_hand_on() -> None:
    assert {name: files for name, files in named_elsewhere().items() if name in KEPT} == {}
    assert not ASKED & KEPT


def test_few_names_are_public() -> None:
    assert len(KNOWN.public) <= MOST_PUBLIC
    assert not KNOWN.inside & {*KNOWN.public}


def test_a_name_inside_leads_to_public_names_of_its_chapter() -> None:
    assert near("overlapped_chunk_fraction", KNOWN)
    assert {home_of(name) for name in near("overlapped_chunk_fraction", KNOWN)} == {"layer"}


@pytest.mark.parametrize(
    "asked",
    [
        lambda name: amped.estimate("default", **{name: 1}),
        lambda name: amped.estimate({"mapping_parameters": {"parameters": {name: {"value": 1}}}}),
        lambda name: amped.explore("minimal", vary={name: [1, 2]}),
        lambda name: amped.explore("minimal", where=f"{name} < 1"),
        lambda name: amped.explore("minimal", objective=name),
        lambda name: amped.sensitivity("minimal", of=name),
    ],
)
def test_a_name_inside_is_refused_and_told_where_it_is(asked: object) -> None:
    with pytest.raises(amped.AmpedError, match=r"is inside chapter layer(.|\n)*it leads to [a-z]") as refused:
        asked("overlapped_chunk_fraction")  # type: ignore[operator]
    assert "`amped explain overlapped_chunk_fraction` shows it" in str(refused.value)


def test_a_name_of_a_users_file_is_public(tmp_path: Path) -> None:
    mine = tmp_path / "step.py"  # the name of a chapter
    text = 'from amped.quantity import quantity\n\n\n@quantity("s")\ndef my_time(step_time):\n    return step_time\n'
    mine.write_text(text, "utf-8")
    assert amped.estimate("default", formulas=mine, my_time=2).plan is not None
    assert amped.explain("my_time", formulas=mine).file == f"{mine}:5"


# --- explain ---------------------------------------------------------------------------------------------------------


def test_every_formula_says_its_file_and_line() -> None:
    for formula in (formula for quantity in KNOWN.values() for formula in quantity.formulas):
        file, _, line = formula.place.partition(":")
        text = (ROOT / "amped" / file).read_text("utf-8").splitlines()[int(line) - 1].strip()
        assert file.removesuffix(".json").removesuffix(".py") == f"theory/{formula.page}"
        assert text.startswith(("def ", '"')), formula.place
        name = re.split(r"[(\"]", text.removeprefix("def ").removeprefix('"'))[0]
        pattern = re.sub(r"[A-Z_]{3,}", r"\\w*", name)  # words in capitals stand for members
        assert re.fullmatch(pattern, formula.function.__name__), (formula.place, formula.function.__name__)


def test_an_explanation_folds_what_is_inside_and_counts_it() -> None:
    folded = amped.explain("layer_exposures", "default")
    whole = amped.explain("layer_exposures", "default", inside=True)
    assert folded.inside["layer"] > 0
    assert not {part.name for part in folded.walk()} & KEPT
    assert {part.name for part in whole.walk()} & KEPT
    assert not any(part.inside for part in whole.walk())
    assert {part.name for part in folded.walk()} == {part.name for part in whole.walk()} - KEPT


def test_a_name_inside_is_explained_to_those_who_ask_for_it() -> None:
    assert amped.explain("overlapped_chunk_fraction", "default").file.startswith("theory/layer/")
