"""What a chapter keeps to itself, and what is said to those who name it.

Each chapter hands on the names in its `HANDS_ON`, and the parameters that a config lists. All other names are inside:
they are computed, `amped explain --inside` shows them, and no other chapter, room or config names them.
"""

from __future__ import annotations

from collections.abc import Iterator

from amped.base.errors import Problem
from amped.theory.language.catalogue import Catalogue

# The greatest number of public names that the problem of an inside name lists.
MOST_NEAR = 3


def inside(name: str, quantities: Catalogue, where: str = "") -> Problem:
    """The problem of using a name that is inside its chapter, with the public names that depend on it.

    Args:
        name: the name that is used.
        quantities: the catalogue.
        where: the place at which the name is used; empty if unknown.
    """
    public_names = ", ".join(near(name, quantities))
    hint = f"it leads to {public_names}; " if public_names else ""
    problem = f"'{name}' is inside chapter {quantities[name].chapter}, and only formulas of this chapter use it"
    return Problem(problem, where, f"{hint}`amped explain {name}` shows it")


def near(name: str, quantities: Catalogue) -> list[str]:
    """The public names that depend on an inside name over the fewest formulas: at most `MOST_NEAR`."""
    visited, names = {name}, {name}
    while names:
        names = {user for inner in names for user in _users(inner, quantities)} - visited
        visited |= names
        public = [user for user in quantities if user in names and quantities[user].is_public]
        if public:
            return public[:MOST_NEAR]
    return []


def _users(name: str, quantities: Catalogue) -> Iterator[str]:
    """The quantities that have a formula with the given name as an argument."""
    for user, quantity in quantities.items():
        if any(name in formula.arguments for formula in quantity.formulas):
            yield user
