"""Software as recipes run it: what a recipe of a release switches on, by kind of network, precision and machine.

A row with the manner `recipe` extends the row of its software. Its column `recipes` lists records: conditions, and the values that a
recipe gives where they hold. A later record stands above an earlier one.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from amped.base.errors import ConfigError, quoted
from amped.base.record import dataclass
from amped.tables.table_files import SOFTWARE
from amped.tables.tables import Row, Tables

# The two manners in which software runs: with its own defaults, and as recipes for its benchmarks switch it.
PLAIN, RECIPE = MANNERS = ("plain", "recipe")
MANNER, RECIPES, RELEASE = "manner", "recipes", "release"
NUMBERS = re.compile(r"\d+")
# Values that balance experts by force: only a benchmark has them.
BY_FORCE: Mapping[str, float | str] = {
    "expert_imbalance_factor": 1.0,
    "expert_capacity_factor": 1.0,
    "expert_assignment": "in_turn",
}


@dataclass(frozen=True)
class Circumstances:
    """What the conditions of a recipe ask: the kind of network, the precision and the machine.

    Attributes:
        is_mixture: whether the network has routed experts.
        has_adapters: whether adapters are trained beside frozen weights.
        matrix_precision: the format of products.
        compute_capability: that of a GPU of NVIDIA, else 0.
        scale_up_domain_size: the accelerators of a fast domain.
    """

    is_mixture: bool
    has_adapters: bool
    matrix_precision: str
    compute_capability: float
    scale_up_domain_size: float

    def meet(self, recipe: Mapping[str, Any]) -> bool:
        """Whether all conditions of a record hold."""
        lowest, below = recipe.get("compute_capability", (0, float("inf")))
        network = "mixture" if self.is_mixture else "dense"
        return (
            recipe.get("network", network) == network
            and self.has_adapters == recipe.get("adapters", self.has_adapters)
            and self.matrix_precision in recipe.get("matrix_precisions", (self.matrix_precision,))
            and lowest <= self.compute_capability < below
            and self.scale_up_domain_size >= recipe.get("least_scale_up_domain_size", 0)
        )


def is_recipe(row: Row) -> bool:
    """Whether a row is software as recipes run it."""
    return row.columns.get(MANNER) == RECIPE


def as_recipes_have_it(row: Row, circumstances: Circumstances) -> Row:
    """A row with the values of all its recipes whose conditions hold; other rows stay as they are."""
    recipes = [recipe["values"] for recipe in row.columns.get(RECIPES) or () if circumstances.meet(recipe)]
    values = {name: value for recipe in recipes for name, value in recipe.items()}
    return replace(row, columns={**row.columns, **values}) if values else row


def in_manner(tables: Tables, software: str, manner: str) -> str:
    """The name of the row of software in a manner: of the release that is nearest to the one in its name, else of the newest.

    Raises:
        ConfigError: if no such row is there, with those that are.
        TableError: if the software is unknown.
    """
    row = tables.row(SOFTWARE, software)
    if manner == PLAIN:
        return next(
            (name for name in (row.name, *row.ancestors) if not is_recipe(tables.row(SOFTWARE, name))), row.name
        )
    if is_recipe(row):
        return row.name
    recipes = [tables.row(SOFTWARE, name) for name in tables.names(SOFTWARE)]
    those = [r for r in recipes if is_recipe(r) and r.ancestors and r.ancestors[0] == row.name]
    if not those:
        known = sorted({r.ancestors[0] for r in recipes if is_recipe(r)})
        raise ConfigError(f"no recipes of {quoted(row.name)} are known", f"recipes are known of {', '.join(known)}")
    asked = released(software)
    nearest = min(those, key=lambda r: _distance(released(str(r.columns[RELEASE])), asked))
    return (nearest if asked else max(those, key=lambda r: released(str(r.columns[RELEASE])))).name


def released(text: str) -> tuple[int, ...]:
    """The numbers of a release in a text, such as (26, 6) for 26.06; empty if it has none."""
    return tuple(int(number) for number in NUMBERS.findall(text))


def _distance(one: Sequence[int], other: Sequence[int]) -> tuple[int, bool]:
    """How far two releases are apart, in months if they are numbered so; of equally distant ones the older is nearer."""
    counted = [12 * numbers[0] + (numbers[1] if numbers[1:] else 0) if numbers else 0 for numbers in (one, other)]
    return abs(counted[0] - counted[1]), counted[0] > counted[1]
