"""Which variations share a run: those of one structure. Some parameters, once given, select other formulas."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field, replace

from amped.base.errors import ResolveError
from amped.configuring.sources import Sources
from amped.engine.resolve import Plan, plan
from amped.sensitivities.variations import Variation
from amped.theory.catalogue import Catalogue


@dataclass(frozen=True)
class Group:
    """Variations that the same formulas evaluate.

    Attributes:
        sources: what is given.
        chosen: the formulas of the result and of the rules.
        replaced: given values in whose place theirs stands, as with `--set`.
    """

    sources: Sources
    chosen: Plan
    replaced: tuple[str, ...]
    variations: list[Variation] = field(default_factory=list)


def grouped(known: Catalogue, targets: Iterable[str], sources: Sources, every: Iterable[Variation]) -> list[Group]:
    """The variations in groups of one structure each; the first is that of the configuration as it is."""
    wanted = tuple(targets)
    main = Group(sources, plan(known, wanted, sources), ())
    groups, selecting = {frozenset(sources.given): main}, _selecting(known)
    for variation in every:
        group = main
        replaced = known[variation.name].replaces & set(main.chosen.leaves)
        if replaced or (variation.name in selecting and variation.name not in sources.given):
            own = _given(known, sources, variation)
            key = frozenset(own.given)
            if key not in groups:
                try:
                    groups[key] = Group(own, plan(known, wanted, own), tuple(sorted(replaced)))
                except ResolveError:  # what it replaces cannot be calculated: that stays as it is
                    groups[key] = main
            group = groups[key]
        given = variation.name in group.sources.given
        group.variations.append(replace(variation, calculated=variation.calculated and not given))
    return [main, *(g for g in groups.values() if g is not main)]


def _given(known: Catalogue, sources: Sources, variation: Variation) -> Sources:
    """The sources as `--set` would make them, with the parameter's own value."""
    kept = {n: v for n, v in sources.given.items() if n not in known[variation.name].replaces}
    return replace(sources, given=kept | {variation.name: variation.value})


def _selecting(known: Catalogue) -> set[str]:
    """The names whose being given selects formulas."""
    return {name for q in known.values() for f in q.formulas for clause in f.mark.clauses for name in clause}
