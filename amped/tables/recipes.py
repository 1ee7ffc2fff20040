"""Software as recipes run it: what a recipe of a release switches on, by kind of network, precision and machine.

A row with the manner `recipe` extends the row of its software. Its column `recipes` lists records: conditions, and the values that a
recipe gives where they hold. A later record stands above an earlier one.
"""

from __future__ import annotations

import math
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
# The manner in which switches and the mapping are chosen together; it is for whoever chooses, and no row has it.
TUNED = "tuned"
MANNER, RECIPES, RELEASE, VALUES = "manner", "recipes", "release", "values"
# The machines that recipes tell apart: nodes or racks (or both), and the compute capability from the first number up to the second.
MACHINES: Mapping[str, tuple[str, float, float]] = {
    "Hopper": ("", 9.0, 10.0),
    "B200": ("node", 10.0, 10.3),
    "B300": ("node", 10.3, 13.0),
    "GB200": ("rack", 10.0, 10.3),
    "GB300": ("rack", 10.3, 13.0),
}
# A fast domain of at least so many accelerators is a rack.
RACK = 32
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
        networks: the kinds that the network is of: `dense`, or `mixture` and `latent mixture` (with latent vectors for keys and
            values), `biased mixture` (the products of experts have a bias) or `plain mixture`.
        layers: how many the network has.
        adapters: whether adapters are trained beside frozen weights.
        precision: the format of products; fp8 with a scale for each block is `mxfp8`.
        machine: a word of MACHINES, `other` for all else.
    """

    networks: frozenset[str]
    layers: float
    adapters: bool
    precision: str
    machine: str

    def meet(self, recipe: Mapping[str, Any]) -> bool:
        """Whether all conditions of a record hold."""
        return (
            recipe.get("network", "") in {"", *self.networks}
            and recipe.get("least_layers", 0) <= self.layers < recipe.get("layers_below", math.inf)
            and self.adapters == recipe.get("adapters", self.adapters)
            and self.precision in recipe.get("precisions", self.precision).split()
            and self.machine in recipe.get("machines", self.machine).split()
        )


def networks(experts: float, latent_dimension: float, expert_bias: float) -> frozenset[str]:
    """The kinds that a network is of, by its experts, its latent vectors and the bias of its experts."""
    if not experts:
        return frozenset({"dense"})
    kind = "latent" if latent_dimension else "biased" if expert_bias else "plain"
    return frozenset({"mixture", f"{kind} mixture"})


def machine(compute_capability: float, scale_up_domain_size: float) -> str:
    """The generation of a machine with GPUs of NVIDIA, by their capability and the size of a fast domain; else `other`."""
    size = "rack" if scale_up_domain_size >= RACK else "node"
    meant = (
        name for name, (kind, low, end) in MACHINES.items() if kind in ("", size) and low <= compute_capability < end
    )
    return next(meant, "other")


def is_recipe(row: Row) -> bool:
    """Whether a row is software as recipes run it."""
    return row.columns.get(MANNER) == RECIPE


def as_recipes_have_it(row: Row, circumstances: Circumstances) -> Row:
    """A row with the values of all its recipes whose conditions hold; other rows stay as they are."""
    recipes = [recipe[VALUES] for recipe in row.columns.get(RECIPES) or () if circumstances.meet(recipe)]
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
    recipes = _recipes(tables)
    those = [r for r in recipes if _is_of(r, row)]
    if not those:
        known = sorted({r.ancestors[0] for r in recipes})
        raise ConfigError(f"no recipes of {quoted(row.name)} are known", f"recipes are known of {', '.join(known)}")
    return _nearest(those, released(software)).name


def notice_of_the_nearest_release(tables: Tables, software: str, row: Row) -> str:
    """What follows a sentence on software that is named with a release, where only recipes of another release are known; else empty."""
    asked, those = released(software), [r for r in _recipes(tables) if _is_of(r, row)]
    if not asked or not those:
        return ""
    nearest = _nearest(those, asked)
    return (
        f"; recipes are known of release {nearest.columns[RELEASE]}, the nearest" if _is_another(asked, nearest) else ""
    )


def _recipes(tables: Tables) -> list[Row]:
    """All rows of software as recipes run it."""
    return [row for name in tables.names(SOFTWARE) if is_recipe(row := tables.row(SOFTWARE, name))]


def _is_of(recipe: Row, software: Row) -> bool:
    """Whether a row of recipes extends a row of software."""
    return recipe.ancestors[:1] == (software.name,)


def _nearest(recipes: Sequence[Row], asked: Sequence[int]) -> Row:
    """The recipes of the release that is nearest to the numbers of another one; of the newest release if there are no numbers."""
    if not asked:
        return max(recipes, key=release_of)
    return min(recipes, key=lambda row: _distance(release_of(row), asked))


def _is_another(asked: Sequence[int], row: Row) -> bool:
    """Whether a row has the recipes of another release than the one with these numbers."""
    taken = release_of(row)
    return bool(asked and taken) and tuple(asked[: len(taken)]) != taken


def release_of(row: Row) -> tuple[int, ...]:
    """The numbers of the release whose recipes a row has; empty if it does not say."""
    return released(str(row.columns.get(RELEASE) or ""))


def notice_of_another_release(software: str, row: Row) -> str:
    """A sentence if software is named with a release, and a row has the recipes of another one; else empty."""
    if not _is_another(released(software), row):
        return ""
    return (
        f"recipes of {quoted(software)} are not known: those of release {row.columns[RELEASE]} are taken, the nearest"
    )


def released(text: str) -> tuple[int, ...]:
    """The numbers of a release in a text, such as (26, 6) for 26.06; empty if it has none."""
    return tuple(int(number) for number in NUMBERS.findall(text))


def _distance(one: Sequence[int], other: Sequence[int]) -> tuple[int, bool]:
    """How far two releases are apart, in months if they are numbered so; of equally distant ones the older is nearer."""
    counted = [12 * numbers[0] + (numbers[1] if numbers[1:] else 0) if numbers else 0 for numbers in (one, other)]
    return abs(counted[0] - counted[1]), counted[0] > counted[1]
