"""Configs of bare values and formulas of a user, made in the test that needs them."""

from collections.abc import Callable, Mapping
from types import ModuleType
from typing import Any

from amped.theory.language.catalogue import catalogue
from amped.theory.language.quantity import CATEGORIES, NETWORK


def sectioned(values: Mapping[str, object], rows: Mapping[str, str] | None = None) -> dict[str, dict[str, Any]]:
    """A config of bare values, each in its own section, and table rows by section; an object is an entry as it is."""
    config: dict[str, dict[str, Any]] = {category: {"parameters": {}} for category in CATEGORIES}
    for name, value in values.items():
        entry = value if isinstance(value, dict) else {"value": value}
        config[catalogue()[name].category or NETWORK]["parameters"][name] = entry
    for category, row in (rows or {}).items():
        config[category]["lookup_config"] = {"lookup_table_row": row}
    return config


def module_of(*functions: Callable[..., Any], name: str = "formulas_of_a_user") -> ModuleType:
    module = ModuleType(name)
    for function in functions:
        function.__module__ = name
        setattr(module, function.__name__, function)
    return module


def page(source: str, name: str = "formulas_of_a_user") -> ModuleType:
    """A module of formulas written as text."""
    module = ModuleType(name)
    exec(f"from amped.quantity import *\nimport numpy as np\n{source}", module.__dict__)
    return module
