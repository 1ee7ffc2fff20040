"""The coefficients that may be fitted; `coefficients.json` has each with physical bounds and the reason for them.

A coefficient is a column of `kernel_efficiencies`: it belongs to an accelerator or a precision. Columns that are not in
this file (tiles, ramps of a product's depth or of a sequence) can be fitted to measured kernels but not to training
steps, so that a calibration to steps keeps them. `coefficients_of_all_rows.json` has those that only the fit to all
rows at once changes: columns of software stacks, and formats that few accelerators have.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from amped.base.files import shipped_json

# The most fitted numbers of a row: with more, a table of coefficients would become one of measurements.
MOST_OF_AN_ACCELERATOR, MOST_OF_A_STACK = 12, 6
# The most numbers of an accelerator's row that the fit to all rows changes.
MOST_OF_ALL_ROWS = 3


@dataclass(frozen=True)
class Coefficient:
    """A coefficient that measurements may change.

    Attributes:
        lowest, highest: the bounds that the hardware and its libraries set, in the canonical unit.
        doubt: how far a table's value may be off: the standard deviation of what is known without measurements.
        reason: the reason for these bounds, with its source.
    """

    name: str
    lowest: float
    highest: float
    doubt: float
    reason: str

    def within(self, value: float) -> tuple[float, float]:
        """The lower and the upper bound, widened so that they contain the value of a table."""
        return min(self.lowest, value), max(self.highest, value)

    def with_doubt_of_bounds(self) -> Coefficient:
        """A copy whose doubt is the whole range between its bounds.

        For a value that was itself fitted to training steps: without those steps only the bounds are known.
        """
        return replace(self, doubt=self.highest - self.lowest)


FITTABLE = tuple(Coefficient(**row) for row in shipped_json("calibration", "coefficients.json"))
BY_NAME = {c.name: c for c in FITTABLE}
OF_ALL_ROWS = BY_NAME | {
    c.name: c for c in (Coefficient(**row) for row in shipped_json("calibration", "coefficients_of_all_rows.json"))
}
