"""A question before it is read: the command line and Python ask with the same words, and get the same scenario."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from amped.configuring.scenario import ConfigSource, Scenario

# The config where nothing is named, and the rows that leave the rest open where one of them is named and no config is.
DEFAULT_CONFIG, ROWS = "default", frozenset(("model", "system", "accelerator"))


class Asking(NamedTuple):
    """What somebody asks: a config (None: no config is named), values and rows on top of it, tables and formulas."""

    config: ConfigSource | None
    values: Mapping[str, object]
    lookup_tables: Any = None
    formulas: Any = None

    def leaves_open(self, swept: Iterable[str] = ()) -> bool:
        """Whether the chooser completes the question: a row or the sizes of a network are named, and no config is.

        Args:
            swept: names that a search sweeps; a row among them counts as named.
        """
        from amped.base.aliases import aliases
        from amped.theory.language.quantity import GIVEN_NETWORK

        named = {aliases().canonical(name) for name, value in self.values.items() if value is not None}
        return self.config is None and (bool(ROWS & {*named, *swept}) or named >= GIVEN_NETWORK)

    def given(self, more: Mapping[str, object] | None = None) -> Mapping[str, object]:
        """The values and rows, with those of `more` in addition; a model that is given as a file is read.

        DualPipe becomes the schedule that it is on the same accelerators; with a config, where the scenario is read.
        """
        from amped.configuring.dualpipe import folded

        values = {**self.values, **(more or {})}
        values = folded(values) if self.leaves_open(more or ()) else values
        if "model" in values:
            from amped.interop.models import with_model

            return with_model(values, self.lookup_tables)
        return values

    def as_written(self, more: Mapping[str, object] | None = None) -> Scenario:
        """The scenario of the config and the values, with further values; nothing is chosen."""
        from amped.configuring.scenario import read_scenario

        config = DEFAULT_CONFIG if self.config is None else self.config
        return read_scenario(config, self.given(more), self.lookup_tables, self.formulas)

    def completed(self, more: Mapping[str, object] | None = None) -> Scenario:
        """The scenario; if rows are named and no config is, all other values are chosen.

        If a name has a list of values, the choice is made for its first value.
        """
        if not self.leaves_open(more or ()):
            return self.as_written(more)
        from amped.configuring.scenario import asked_again
        from amped.drafting.chooser import completed
        from amped.drafting.switches import tuned
        from amped.tables.recipes import MANNER, TUNED

        given, lists = _parted(self.given(more))
        firsts = {name: values[0] for name, values in lists.items()}
        choose = tuned if given.get(MANNER) == TUNED else completed
        scenario = choose({**given, **firsts}, self.lookup_tables, self.formulas)
        return asked_again(scenario.question, lists) if lists else scenario

    def searched(self, sweeps: Mapping[str, Any]) -> tuple[Scenario, Mapping[str, Any]]:
        """The scenario of a search, and all its sweeps: those given as lists of values, and `sweeps`.

        If rows are named and no config is, all values but the mapping are chosen, for the first value of each sweep.
        """
        if not self.leaves_open(sweeps):
            return self.as_written(), sweeps
        from amped.drafting.chooser import without_mapping
        from amped.tables.recipes import MANNER, TUNED

        given, lists = _parted(self.given())
        if given.get(MANNER) == TUNED:
            from amped.drafting.switches import switched

            firsts = {name: values[0] for name, values in lists.items()}
            chosen = switched({**given, **firsts}, self.lookup_tables, self.formulas)
            given = {name: value for name, value in chosen.items() if name not in lists}
        swept = {**lists, **sweeps}
        firsts = {name: values[0] if _is_list(values) else values for name, values in swept.items()}
        return without_mapping(given, firsts, self.lookup_tables, self.formulas), swept


def _parted(given: Mapping[str, object]) -> tuple[dict[str, object], dict[str, Any]]:
    """The names with one value, and the names with a list of values; a name whose value is None is left out."""
    lists = {name: value for name, value in given.items() if _is_list(value)}
    return {name: v for name, v in given.items() if name not in lists and v is not None}, lists


def _is_list(values: object) -> bool:
    """Whether this is a list or a tuple that is not empty, as for a sweep."""
    return isinstance(values, list | tuple) and bool(values)
