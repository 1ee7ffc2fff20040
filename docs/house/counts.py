"""Counts the house: `python docs/house/draw.py --counts` prints how many things there are, for a reader and for a plan.

A number that grows without a reason is a place to look at. Nothing here is stored: the code answers.
"""

from __future__ import annotations

import ast
import io
import json
import re
import sys
import tokenize
from collections import Counter
from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import Path
from types import FrameType
from typing import Any

import amped
from amped.configuring.scenario import read_scenario
from amped.engine import evaluate, resolve
from amped.theory.language.catalogue import Formula, catalogue
from tests.house import test_floors
from tests.theory.laws import test_chapters

ROOT = Path(__file__).resolve().parent.parent.parent
THEORY = ROOT / "amped" / "theory"
# A large mixture of experts, whose mapping is searched: the largest plan of the shipped rows.
MIXTURE: Mapping[str, object] = {"model": "DeepSeek V3", "system": "DGX H100", "number_of_nodes": 64}
# A question by the names of rows, with all the rest open; and the same with each choice given.
OPEN: Mapping[str, object] = {"model": "Llama 3 8B", "system": "DGX H100", "number_of_nodes": 8}
GIVEN = OPEN | {
    "software": "Megatron-Bridge", "context": 8192, "batch_size": 256, "tokens_to_train": "1e12", "tensor_parallel_degree": 2,
    "pipeline_parallel_degree": 2, "context_parallel_degree": 1, "microbatch_size": 1, "virtual_pipeline_stages": 1,
    "activation_recomputation": "none", "zero_stage": 1,
}  # fmt: skip
# What is counted while a question is answered; its code tells one from another.
CALLS: Mapping[str, Any] = {"run": evaluate.run, "plan": resolve.plan, "read_scenario": read_scenario}
# Files that list the names of the catalogue, made by a command: they use none.
GENERATED = ("config.schema.json",)
NAME_TESTS = ("startswith", "endswith")
Line = tuple[str, object]


def lines() -> Iterator[Line]:
    """All counts, each with its words."""
    default, mixture = amped.estimate("default"), amped.estimate(**MIXTURE)
    for title, estimate in (("config default", default), (f"{MIXTURE['model']}", mixture)):
        yield from ((f"{title}: {words}", count) for words, count in of_a_plan(estimate))
    yield from of_the_names()
    yield from of_the_house()
    for title, question in (("each choice given", GIVEN), ("all open", OPEN)):
        told = ", ".join(f"{name} {count}" for name, count in calls_of(question).items())
        yield f"calls of a named question, {title}", told


# --- what an estimate plans ------------------------------------------------------------------------------------------


def of_a_plan(estimate: amped.Estimate) -> Iterator[Line]:
    """What one step time stands on, and what the whole estimate plans."""
    scenario = estimate.scenario
    step = resolve.plan(scenario.catalogue, ("step_time",), scenario.sources)
    defaults = sum(formula.mark.kind == "parameter" for formula in step.by_name.values())
    depths = dict[str, int]()
    for name, formula in step.by_name.items():
        depths[name] = 1 + max((depths.get(argument, 0) for argument in formula.arguments), default=0)
    yield "formulas behind step_time", len(step.by_name) - defaults
    yield "parameters behind step_time, by default and given", f"{defaults} + {len(step.leaves)}"
    yield "pages behind step_time", len({formula.page for formula in step.by_name.values()})
    yield "depth of step_time", depths["step_time"]
    planned = resolve.plan(
        scenario.catalogue, estimate.plan.targets, scenario.sources, tuple(estimate.plan.lacking)
    ).by_name
    yield "planned formulas", len(planned)
    yield "clones among them, by kind of layer", sum("__if_" in name for name in planned)


# --- names -----------------------------------------------------------------------------------------------------------


def of_the_names() -> Iterator[Line]:
    """How many names there are, who uses them, and where they stand."""
    known = catalogue()
    formulas = [formula for quantity in known.values() for formula in quantity.formulas]
    derived = [name for name in known if is_derived(name)]
    yield "names", len(known)
    yield "formulas, variants among them", f"{len(formulas)}, {sum(bool(f.variant) for f in formulas)}"
    yield "public names", len(public())
    yield "derived names", len(derived)
    yield "derived names that only their own chapter uses", len([name for name in derived if is_private(name)])
    yield "names that no search of theory/ finds", len([name for name in known if name not in words_of_theory()])
    yield "names that no search finds where they are defined", len([name for name in known if name not in defined()])
    yield "references, backwards among them", f"{sum(len(f.arguments) for f in formulas)}, {len(backwards(formulas))}"
    yield "names that are exceptions to the order of chapters", len(test_chapters.EXCEPTIONS)
    pages = (page for page in THEORY.rglob("*.py") if page.parent.name != "language")
    yield "tests of a name in chapters and nouns", sum(len(list(tests_of_names(page))) for page in pages)


def public() -> list[str]:
    """The names that others than their own chapter may use."""
    return [name for name, quantity in catalogue().items() if quantity.is_public]


def is_derived(name: str) -> bool:
    """Whether a name is no leaf that a config lists, and no rule."""
    quantity = catalogue()[name]
    return not quantity.category and not quantity.mark.constrains


def is_private(name: str) -> bool:
    """Whether only formulas of its own chapter, and no other room, no config and no table, use a name."""
    return users().get(name, set()) <= {catalogue()[name].chapter} and name not in words_of_rooms()


def chapter(formula: Formula) -> str:
    """The chapter of a formula."""
    return formula.page.split("/", maxsplit=1)[0]


@cache
def users() -> Mapping[str, set[str]]:
    """The chapters whose formulas take or ask for each name."""
    by_name: dict[str, set[str]] = {}
    for formula in (formula for quantity in catalogue().values() for formula in quantity.formulas):
        mark = formula.mark
        asked = (*mark.when_given, *mark.when_any_given, *mark.even_with, *mark.replaces, mark.choice, mark.constrains)
        for name in (*formula.arguments, *filter(None, asked)):
            by_name.setdefault(name, set()).add(chapter(formula))
    return by_name


@cache
def words_of_theory() -> set[str]:
    """Every word of the book's sources and tables, and the names in words such as `name__variant`."""
    words = words_of(path for path in THEORY.rglob("*") if path.suffix in (".py", ".json"))
    return words | {word.partition("__")[0] for word in words}


@cache
def defined() -> set[str]:
    """The names that stand written out where they are defined: behind `def`, as the key of a row, or after `named`."""
    texts = [path.read_text("utf-8") for path in THEORY.rglob("*") if path.suffix in (".py", ".json")]
    written = (re.findall(r"def (\w+)\(|^\s*\"(\w+)\":", text, re.M) for text in texts)
    listed = (row for text in texts for row in re.findall(r"\bnamed\"?[=:]\s*[(\[](.*?)[)\]]", text, re.S))
    names = {one or other for found in written for one, other in found}
    names |= {name for row in listed for name in re.findall(r"\w+", row)}
    return {name.partition("__")[0] for name in names}


@cache
def words_of_rooms() -> set[str]:
    """Every word of the other rooms' sources and data, of configs and of tables, and what the results are called."""
    rooms = (path for path in (ROOT / "amped").rglob("*") if THEORY not in path.parents)
    others = (path for folder in ("kernels", "configs", "lookup_tables") for path in (ROOT / folder).rglob("*"))
    written = (p for p in (*rooms, *others) if p.suffix in (".py", ".json", ".js") and p.name not in GENERATED)
    return words_of(written) | set(amped.estimate("default").plan.targets)


def words_of(paths: Iterator[Path]) -> set[str]:
    """Every word of some files."""
    return {word for path in paths for word in re.findall(r"\w+", path.read_text("utf-8"))}


def backwards(formulas: list[Formula]) -> list[str]:
    """Each reference to a name of a later chapter."""
    return [name for formula in formulas for name in test_chapters.backward(formula, test_chapters.HOMES)]


def tests_of_names(page: Path) -> Iterator[ast.AST]:
    """The places where a page asks how a name begins, ends or reads."""
    for node in ast.walk(ast.parse(page.read_text("utf-8"))):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr in NAME_TESTS:
            yield node
        if isinstance(node, ast.Compare) and isinstance(node.left, ast.Attribute) and node.left.attr == "name":
            yield node


# --- rooms and files -------------------------------------------------------------------------------------------------


def of_the_house() -> Iterator[Line]:
    """Rooms, floors, who imports whom, and how much code there is."""
    pairs = set[tuple[str, str]]()
    for path in (*test_floors.SOURCES, *test_floors.KERNELS):
        room = room_of(path)
        others = {test_floors.room_of(name) for name in test_floors.imports_of(path) if name.startswith("amped.")}
        pairs |= {(room, other) for other in others - {room} if not {room, other} & set(test_floors.DATA_ROOMS)}
    floors = test_floors.FLOORS
    yield "rooms, floors", f"{len(floors)}, {len(set(floors.values()))}"
    yield "arrows by imports, upward among them", f"{len(pairs)}, {sum(floors[a] <= floors[b] for a, b in pairs)}"
    yield "circles of imports between rooms", len(circles(pairs))
    files = Counter(path.name for path in THEORY.rglob("*.py") if path.name != "__init__.py")
    twins = sorted(f"{count} {name}" for name, count in files.items() if count > 1)
    yield "files of theory/ with the same name", ", ".join(twins) or 0
    amped_tokens, kernel_tokens = (sum(map(tokens_of, paths)) for paths in (test_floors.SOURCES, test_floors.KERNELS))
    yield "tokens of code, amped and kernels", f"{amped_tokens} + {kernel_tokens} = {amped_tokens + kernel_tokens}"
    parameters = sorted(THEORY.rglob("*.json"))
    yield "rows of parameters as data", sum(len(json.loads(page.read_text("utf-8"))["rows"]) for page in parameters)


def room_of(path: Path) -> str:
    """The room of a file."""
    return "kernels" if path in test_floors.KERNELS else test_floors.room_of(test_floors.module_of(path))


def circles(pairs: set[tuple[str, str]]) -> set[str]:
    """The rooms from which imports lead back to themselves."""
    reached = pairs
    while True:
        further = reached | {(a, d) for a, b in reached for c, d in pairs if b == c}
        if further == reached:
            return {one for one, other in reached if one == other}
        reached = further


def tokens_of(path: Path) -> int:
    """The tokens of a file's code: no comments, no ends of lines."""
    skipped = {tokenize.COMMENT, tokenize.NL, tokenize.NEWLINE, tokenize.INDENT, tokenize.DEDENT, tokenize.ENDMARKER}
    tokens = tokenize.generate_tokens(io.StringIO(path.read_text("utf-8")).readline)
    return sum(token.type not in skipped for token in tokens)


# --- a question ------------------------------------------------------------------------------------------------------


def calls_of(question: Mapping[str, object]) -> dict[str, int]:
    """How often the engine plans, runs and is read a scenario for, until a question is answered."""
    counts, names = Counter[str](), {function.__code__: name for name, function in CALLS.items()}

    def count(frame: FrameType, event: str, _: object) -> None:
        if event == "call" and frame.f_code in names:
            counts[names[frame.f_code]] += 1

    sys.setprofile(count)
    try:
        amped.estimate(**question)
    finally:
        sys.setprofile(None)
    return {name: counts[name] for name in CALLS}


def printed() -> str:
    """All counts, one a line."""
    counted = [(words, str(count)) for words, count in lines()]
    widest = max(len(words) for words, _ in counted)
    return "\n".join(f"{words:<{widest}}  {count}" for words, count in counted)
