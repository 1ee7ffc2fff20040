"""The coefficients that may be fitted: `coefficients.json` has each with bounds that keep it physical and the reason for them.

A coefficient is a column of `kernel_efficiencies`: it belongs to an accelerator or a precision. What is not here (tiles,
ramps of a product's depth or of a sequence) is told by kernels and not by training steps, and stays as the table has it.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from amped.base.files import shipped_json

# Fitted numbers that a row may have at most: with more, a table of coefficients would be one of measurements.
MOST_OF_AN_ACCELERATOR, MOST_OF_A_STACK = 12, 6


@dataclass(frozen=True)
class Coefficient:
    """A coefficient that measurements may change.

    Attributes:
        lowest, highest: what the hardware and its libraries can be, in the canonical unit.
        doubt: how far the value of a table may well be off: one standard deviation of what is known without measurements.
        reason: why these bounds; with their source.
    """

    name: str
    lowest: float
    highest: float
    doubt: float
    reason: str

    def within(self, value: float) -> tuple[float, float]:
        """The bounds, widened to a value that a table has already."""
        return min(self.lowest, value), max(self.highest, value)

    def known_from_steps_alone(self) -> Coefficient:
        """The same where a table's value was itself fitted to training steps: nothing else is known but the bounds."""
        return replace(self, doubt=self.highest - self.lowest)


FITTABLE = tuple(Coefficient(**row) for row in shipped_json("calibration", "coefficients.json"))
BY_NAME = {c.name: c for c in FITTABLE}
