"""Formulas for one kind of layer: the formula of X as it is in a network that has only layers of this kind."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from functools import cache
from typing import Any

from amped.theory.language.catalogue import Catalogue, Formula
from amped.theory.language.kinds_of_layers import IF, KINDS, OF_EACH_KIND, OF_THE_BOTTLENECK, OF_THE_STEP, PER_LAYER
from amped.theory.language.quantity import Mark

SHARES = "bottleneck_layer_shares"


class Kinds:
    """Finds the formula of a name; the name may ask for one kind of layer.

    Attributes:
        kinds: the kinds of layers; for each, the quantities that depend on it directly, and their formulas.
    """

    def __init__(self, catalogue: Catalogue, given: frozenset[str], choices: Mapping[str, str]) -> None:
        self.catalogue, self.given, self.choices = catalogue, given, choices
        self.kinds = KINDS[choices.get("kinds_of_layers", "one")]
        self._roots = {name for roots in self.kinds.values() for name in roots}
        self._depends = cache(self._asked)

    def formula(self, name: str) -> Formula | None:
        """The formula that gives a name, or None."""
        base, _, asked = name.partition("__")
        if not asked:
            return self._of_the_step(self.catalogue[name].chosen(self.given, self.choices))
        if asked == OF_EACH_KIND:
            return self._of_each(name, base)
        if asked == OF_THE_BOTTLENECK:
            each = tuple(f"{base}__{IF}{kind}" for kind in self.kinds)
            return Formula(name, "", _mean, (SHARES, *each), self.catalogue[base].mark, "kinds_of_layers")
        return self._if(name, base, asked.removeprefix(IF))

    def _of_each(self, name: str, base: str) -> Formula:
        """The records of a name for every kind, joined."""
        each = tuple(f"{base}__{IF}{kind}" for kind in self.kinds) or (base,)
        return Formula(name, "", _joined, each, Mark("records"), "kinds_of_layers")

    def _if(self, name: str, base: str, kind: str) -> Formula | None:
        """The formula of a name in a network where all layers are of one kind."""
        if root := self.kinds[kind].get(base):
            return Formula(name, "", root, ("layers",), self.catalogue[base].mark, "kinds_of_layers")
        formula = self.catalogue[base].chosen(self.given, self.choices)
        if formula is None:
            return None
        arguments = tuple(f"{a}__{IF}{kind}" if self._depends(a) else a for a in formula.arguments)
        return replace(formula, name=name, arguments=arguments)

    def _of_the_step(self, formula: Formula | None) -> Formula | None:
        """A formula of the step where quantities per layer are those of the bottleneck stage."""
        if formula is None or not self.kinds or not formula.page.startswith(OF_THE_STEP):
            return formula
        arguments = tuple(
            f"{a}__{OF_THE_BOTTLENECK}" if a.endswith(PER_LAYER) and self._depends(a) else a for a in formula.arguments
        )
        return formula if arguments == formula.arguments else replace(formula, arguments=arguments)

    def _asked(self, name: str) -> bool:
        """Whether a quantity depends on the kind of the layers."""
        if name in self._roots or name in self.given or "__" in name:
            return name in self._roots
        formula = self.catalogue[name].chosen(self.given, self.choices)
        return formula is not None and any(map(self._depends, formula.arguments))


def _joined(*records: tuple[Any, ...]) -> tuple[Any, ...]:
    return tuple(record for each in records for record in each)


def _mean(shares: tuple[Any, ...], *values: Any) -> Any:
    return shares[0].mean(*values)
