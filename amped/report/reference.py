"""The glossary and the equations, generated from the catalogue."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator
from types import FunctionType, ModuleType
from typing import Any

from rich.table import Table

from amped.report import human, tables
from amped.theory.language.catalogue import Catalogue, Formula, Quantity
from amped.theory.language.quantity import CATEGORIES, mark_of

MUST_BE_GIVEN = "# must be given"

TITLES = {None: "Results and what leads to them"} | {
    c: c.removesuffix("_parameters").replace("_", " ").capitalize() for c in CATEGORIES
}


def glossary(catalogue: Catalogue) -> str:
    """Every name by category, with unit, default and meaning, as Markdown."""
    lines = ["# Glossary", "", "Every public name of amped; made by `amped parameters --markdown`. Names in a config, in a table",
             "and in the results are the same. Units are canonical: a number without a unit is read in them.", ""]  # fmt: skip
    for category, title in TITLES.items():
        lines += [f"## {title}", ""] if category is None else [f"## {title}", "", f"In a config: `{category}`.", ""]
        lines += ["| name | unit | default | meaning |", "|---|---|---|---|"]
        quantities_of_category = (quantity for quantity in _shown(catalogue) if quantity.category == category)
        lines += [
            f"| `{quantity.name}` | {_unit(quantity)} | {_default(quantity)} | {_meaning(quantity)} |"
            for quantity in quantities_of_category
        ]
        lines.append("")
    return "\n".join(lines)


def equations(catalogue: Catalogue) -> str:
    """Every formula by topic as Markdown: its code, its source, and how the code differs from the source."""
    introduction = "Every formula by topic, as it is computed; made by `amped parameters --equations`."
    lines = ["# Equations", "", introduction, ""]
    pages: dict[str, list[Formula]] = {}
    for formula in (formula for quantity in catalogue.values() for formula in quantity.formulas):
        pages.setdefault(formula.page, []).append(formula)
    for page, formulas in pages.items():
        module = inspect.getmodule(formulas[0].function)
        lines += [f"## {page.capitalize()}", "", inspect.getdoc(module) or "", ""]
        for helper in _helpers(module):
            lines += _helper(helper)
        for formula in formulas:
            lines += _equation(formula)
    return "\n".join(lines)


def _helpers(module: ModuleType | None) -> Iterator[FunctionType]:
    """The functions in the module of a page that its formulas share and that are no quantities."""
    for function in vars(module).values():
        is_helper = isinstance(function, FunctionType) and function.__module__ == getattr(module, "__name__", "")
        if is_helper and mark_of(function) is None and function.__name__ != "<lambda>":
            yield function


def _helper(function: FunctionType) -> list[str]:
    """The lines of Markdown for one shared function: its description and its code."""
    arguments = ", ".join(inspect.signature(function).parameters)
    return _section(function, f"({arguments})", [" ".join((inspect.getdoc(function) or "").split())])


def table(catalogue: Catalogue) -> Table:
    """The glossary as a table for a terminal."""
    heads = ("name", "unit", "default", "meaning")
    return tables.table(
        heads, ((q.name, _unit(q), _default(q), q.summary) for q in _shown(catalogue)), heads, heads[1:]
    )


def entries(catalogue: Catalogue) -> list[dict[str, Any]]:
    """The glossary for machines: units as in `amped explain`, and the meaning with its source."""
    return [{"name": q.name, "category": q.category, "unit": q.mark.unit, "choices": list(q.mark.choices),
             "default": _default(q), "meaning": _meaning(q)} for q in _shown(catalogue)]  # fmt: skip


def _shown(catalogue: Catalogue) -> Iterator[Quantity]:
    """The quantities that the glossary lists: those that are numbers."""
    return (catalogue[name] for name in catalogue.numbers)


def _unit(quantity: Quantity) -> str:
    """The unit of a quantity as the glossary shows it; for a choice, the possible words."""
    mark = quantity.mark
    return {"1": "", "choice": ", ".join(mark.choices), "boolean": "true or false"}.get(
        mark.unit, mark.bare or mark.unit
    )


def _default(quantity: Quantity) -> str:
    """The default of a quantity as text; `calculated` if a formula with arguments gives the value."""
    default_formula = next((formula for formula in quantity.formulas if not formula.variant), None)
    if default_formula is None or default_formula.arguments:
        return "calculated"
    value = default_formula.function()
    if value is None:
        return "none"
    return value if isinstance(value, str) else human.value(float(value), quantity.mark.unit)


def _meaning(quantity: Quantity) -> str:
    """The summary of a quantity, with its bars escaped for a table in Markdown."""
    return quantity.summary.replace("|", "\\|")


def _equation(formula: Formula) -> list[str]:
    """The lines of Markdown for one formula: its name, unit, code without the docstring, and source."""
    text, unit = formula.text, formula.mark.unit or "records"
    when = [f"Used when {formula.because}."] if formula.because else []
    differs = [f"*Differs:* {text['differs']}", ""] if text["differs"] else []
    equation = ["\n".join(("```text", text["equation"], "```"))] if text["equation"] else []
    about = [f"{text['summary']} Unit: {unit}.", *equation, *when]
    return [*_section(formula.function, "", about), f"*Source:* {text['source']}", "", *differs]


def _section(function: Callable[..., Any], arguments: str, about: list[str]) -> list[str]:
    """The lines of Markdown for a function: its name, its description, and its code."""
    head = [line for text in (f"### {function.__name__}{arguments}", *about) for line in (text, "")]
    return [*head, "```python", *_body(function), "```", ""]


def _body(function: Callable[..., Any]) -> list[str]:
    """The lines of a function after its docstring; for a function made from a row, that row."""
    if (row := getattr(function, "__amped_body__", None)) is not None:
        return [row or MUST_BE_GIVEN]
    text = inspect.getsource(function)
    for word, value in getattr(function, "__amped_words__", {}).items():
        text = text.replace(word, value if isinstance(value, str) else f"[{', '.join(value)}]")
    body = text.split('"""', 2)[2].strip("\n").splitlines()
    return [line.removeprefix("    ") for line in body] or [MUST_BE_GIVEN]
