"""What a chapter keeps to itself, and what is said to those who name it.

Each chapter hands on the names in its `HANDS_ON`, and the parameters that a config lists. All other names are inside:
they are computed, `amped explain --inside` shows them, and no other chapter, room or config names them.
"""

from __future__ import annotations

from collections.abc import Iterator

from amped.base.errors import Problem
from amped.theory.language.catalogue import Catalogue

# So many public names are told beside one that is inside.
MOST_NEAR = 3


def inside(name: str, quantities: Catalogue, where: str = "") -> Problem:
    """The problem of a name that is inside its chapter: what it leads to, and where to look at it."""
    leads = ", ".join(near(name, quantities))
    leading = f"it leads to {leads}; " if leads else ""
    what = f"'{name}' is inside chapter {quantities[name].chapter}, and only formulas of this chapter use it"
    return Problem(what, where, f"{leading}`amped explain {name}` shows it")


def near(name: str, quantities: Catalogue) -> list[str]:
    """The public names that a name inside leads to, over the fewest formulas."""
    seen, level = {name}, {name}
    while level:
        level = {user for inner in level for user in _users(inner, quantities)} - seen
        seen |= level
        public = [user for user in quantities if user in level and quantities[user].is_public]
        if public:
            return public[:MOST_NEAR]
    return []


def _users(name: str, quantities: Catalogue) -> Iterator[str]:
    """The quantities with a formula that takes a name."""
    for user, quantity in quantities.items():
        if any(name in formula.arguments for formula in quantity.formulas):
            yield user
