"""The grade of an estimate: how near the validated runs are to it.

`measured`: a validated run has the same accelerators, their number, network, software, precision, sequence and degrees of
parallelism. `validated near`: runs on accelerators of the same generation have each of its properties. `validated far`: only
runs on others have one of them. `by law only`: no run has one of them, and nothing but the equations speaks for it.
`not modelled`: what amped leaves out may move it by more than a quarter. The grade is that of the property with the least
evidence.
"""

from __future__ import annotations

from collections.abc import Sequence
from operator import attrgetter

from amped.estimation.validated import Ground, Validated, validated, well_known

MEASURED, NEAR, FAR, LAW, MISSING = "measured", "validated near", "validated far", "by law only", "not modelled"
GRADES = (MEASURED, NEAR, FAR, LAW, MISSING)
# What a run shares with a configuration of which it is the measurement, and what any run may show.
IDENTITY = attrgetter(
    "accelerator", "software", "precision", "number_of_experts", "number_of_accelerators", "number_of_parameters", "context", "mapping"
)  # fmt: skip
SHOWN, LIMITS = ("experts", "precision", "software"), ("number_of_accelerators", "number_of_parameters", "context")


def grade(ground: Ground, runs: Sequence[Validated] | None = None) -> str:
    """The grade of a configuration of which everything is modeled."""
    grounds = [run.ground for run in well_known(validated() if runs is None else runs)]
    if ground.mapping and any(IDENTITY(other) == IDENTITY(ground) for other in grounds):
        return MEASURED
    near = [other for other in grounds if other.generation == ground.generation]
    evidence = [NEAR if near else FAR, *(_shown(ground, name, near, grounds) for name in SHOWN)]
    evidence += [FAR for name in LIMITS if getattr(ground, name) > max((getattr(g, name) for g in near), default=0.0)]
    return max(evidence, key=GRADES.index)


def _shown(ground: Ground, name: str, near: Sequence[Ground], grounds: Sequence[Ground]) -> str:
    """The grade of the evidence for one property: NEAR, FAR or LAW; NEAR if the configuration has no value of it."""
    value = getattr(ground, name)
    if not value or any(getattr(other, name) == value for other in near):
        return NEAR
    return FAR if any(getattr(other, name) == value for other in grounds) else LAW
