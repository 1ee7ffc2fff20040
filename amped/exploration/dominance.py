"""Values of a policy that are not tried, because another value is shown to be as good in every candidate.

A step is a sum of times, where computation hides at most its own time of messages. A step therefore never gets shorter
if a kernel takes longer, and memory never gets smaller if a layer keeps more. If with one of two values no pass of a
layer takes longer and no layer keeps more, this value makes a step neither slower nor larger.
Source: definition; `tests/exploration/test_twin.py` compares both values of many mappings.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import cached_property

import numpy as np

from amped.engine.axes import JointAxis
from amped.engine.evaluate import Columns, Mask, run
from amped.engine.resolve import Plan, plan
from amped.exploration.cases import Family
from amped.exploration.constraints import Wish
from amped.exploration.objectives import Objective
from amped.theory.language.catalogue import Catalogue

# A policy that changes only attention. RESPECTS lists all that follows from it in a layer.
COMPARED = "flash_attention"
RESPECTS = (
    "layer_computation", "layer_repeats", "layer_kernels", "kept_activation_bytes_per_layer", "recomputed_layer_bytes",
    "working_gradient_bytes",
)  # fmt: skip
# A policy that only hides messages, and what depends on it before a step does. Of the hidden time,
# `overlap_slowdown_fraction` (at most all of it) is lost again.
HIDING = "overlap_data_communication"
HIDDEN = {
    "overlapped_gradient_communication_time", "sharded_weight_window_time", "overlapped_weight_communication_time",
    "data_exchanges_of_other_stages_time", "hidden_data_communication_time", "exposed_data_communication_time",
}  # fmt: skip
# Results that can only grow with longer times and more bytes, and results that can only shrink.
GROW = ("training_time", "step_time", "cost", "memory_per_accelerator_bytes")
SHRINK = ("tokens_per_second_per_accelerator", "model_flop_rate_per_accelerator", "model_flops_utilization")


class Dominance:
    """For what the user asks: which policies have values that need not be tried."""

    def __init__(
        self,
        catalogue: Catalogue,
        family: Family,
        chosen: Plan,
        objectives: Iterable[Objective],
        wishes: Iterable[Wish],
    ) -> None:
        self.catalogue, self.family, self.chosen = catalogue, family, chosen
        self._signs = [(objective.name, objective.sign) for objective in objectives]
        for wish in wishes:
            sign = {"<": 1.0, ">": -1.0}.get(wish.comparison[0], 0.0)
            self._signs += [(name, -sign if name == wish.other else sign) for name in wish.quantities]

    def _better_where_less(self, policy: str) -> bool:
        """Whether all that is asked for and depends on a policy gets better with less time and fewer bytes."""
        signs, following = {**dict.fromkeys(GROW, 1.0), **dict.fromkeys(SHRINK, -1.0)}, _following(self.chosen, policy)
        return all(signs.get(name) == sign or name not in following for name, sign in self._signs)

    @property
    def hides(self) -> bool:
        """Whether the policy that hides messages does nothing else; if it is on, no step is longer."""
        changed = _following(self.chosen, HIDING) - _following(self.chosen, "step_time")
        return changed <= {HIDING, *HIDDEN} and self._better_where_less(HIDING)

    @cached_property
    def compares(self) -> bool:
        """Whether the times and bytes of a layer decide if one value of the compared policy is as good as another."""
        return self.chosen.by_name.keys() >= {*RESPECTS} and self._better_where_less(COMPARED)

    @cached_property
    def _respected(self) -> Plan:
        return plan(self.catalogue, RESPECTS, self.family.sources)

    def as_good(self, rows: Columns, axes: Columns) -> Mask:
        """The rows in which the last value of the compared policy is in every respect as good as each other value."""
        place, joint = [*axes].index(COMPARED), JointAxis(rows, tied=self.family.tied)
        results = run(self._respected, self.family.sources.given, joint, axes, frozenset(RESPECTS))
        good: Mask = np.ones(joint.size, dtype=bool)
        for numbers in (array for name in RESPECTS for array in results.arrays(name) if array.ndim > place):
            values = np.moveaxis(numbers, place, 0)
            if len(values) > 1:
                good = good & np.all(values[-1] <= values, axis=tuple(range(values.ndim - 1)))
        return good


def _following(chosen: Plan, name: str) -> set[str]:
    """A name, and the quantities that depend on it."""
    following = {name}
    for quantity, formula in chosen.by_name.items():
        if not following.isdisjoint(formula.arguments):
            following.add(quantity)
    return following
