"""The nearest kin of an accelerator, by named features: whose kernel coefficients an accelerator takes that nobody measured.

The distance of two accelerators is a sum of steps: whose software runs on them, of which generation and how wide their matrix units
are, which formats these multiply, how the memory is built, what power a FLOP takes, and how many years lie between them.
An accelerator with a row of its own in `kernel_efficiencies` was measured. One without takes the row of the nearest one that has
one. Of a row, two shares may stay in doubt: the clock under load, which is then that of the nearest accelerator where it is known,
and the shares of 8-bit and 4-bit products, which then are to that of 16-bit products as they are on the nearest such accelerator.
"""

from __future__ import annotations

import math
from collections.abc import Iterator

from amped.base.errors import UnitError
from amped.base.record import dataclass
from amped.base.units import parse
from amped.tables.table_files import ACCELERATORS, KERNELS
from amped.tables.tables import Row, Tables

# The formats whose products have a peak of their own, in the order in which generations of matrix units got them.
FORMATS = ("bf16", "fp8", "fp4")
# The share of the peak that 16-bit products reach, and the clock under the power limit in a training.
PRODUCTS, CLOCK = "gemm_sustained_fraction", "training_clock_fraction"
# The shares that are tied to that of 16-bit products by the kin's ratio, with the peaks of their formats.
TIED = {"fp8_gemm_sustained_fraction": "fp8_peak_flop_rate", "fp4_gemm_sustained_fraction": "fp4_peak_flop_rate"}
# The steps of the distance. Libraries and a compiler come with the vendor, and weigh as much as two generations.
ECOSYSTEM, GENERATION, PER_DOUBLED_WIDTH, PER_FORMAT, PER_DOUBLED_POWER = 2.0, 1.0, 0.5, 1.0, 1.0
MEMORY, MEMORY_GENERATION, PER_YEAR, UNSTATED, NEAR = 1.0, 0.25, 0.25, 0.5, 0.5


@dataclass(frozen=True)
class Features:
    """The features of an accelerator that tell how well its kernels use it; None for one that its row does not state.

    Attributes:
        vendor: its maker, who writes its libraries and compiler.
        generation: the first word of its architecture.
        width: the multiply-accumulates of one matrix unit in a clock.
        formats: the formats of `FORMATS` that its matrix units multiply, each faster than the one before: what generation they are.
        memory: the kind of memory, as in HBM2e.
        power: watts for each FLOP/s of the 16-bit peak.
        year: the year of its release.
    """

    vendor: str | None
    generation: str | None
    width: float | None
    formats: frozenset[str]
    memory: str | None
    power: float | None
    year: float | None


@dataclass(frozen=True)
class Kin:
    """An accelerator whose coefficient another one takes.

    Attributes:
        accelerator: its name.
        kernels: its row of kernel efficiencies.
        features: the features in which it is nearest, in words.
    """

    accelerator: str
    kernels: Row
    features: str

    @property
    def text(self) -> str:
        """The kin and the reason, in words."""
        return f"taken from {self.accelerator}, nearest in {self.features}"

    def text_of(self, column: str) -> str:
        """The kin, the reason, and of a tied share how it was taken."""
        return self.text + ("; the same ratio to 16-bit products" if column in TIED else "")


def features_of(row: Row) -> Features:
    """The features of an accelerator, from its row."""
    peak = _number(row, "bf16_peak_flop_rate", "flop/s") or _number(row, "fp16_peak_flop_rate", "flop/s")
    watts = _number(row, "thermal_design_power", "W")
    return Features(
        vendor=_word(row.columns.get("vendor")), generation=_word(row.columns.get("architecture")),
        width=_number(row, "mac_per_cycle_per_unit", "count"),
        formats=_formats(row),
        memory=_word(row.columns.get("memory_type")), power=watts / peak if watts and peak else None,
        year=_number(row, "release_year", "count"),
    )  # fmt: skip


def steps(one: Features, other: Features) -> dict[str, float]:
    """The distance of two accelerators in each feature; half of it for a feature that one of them does not state."""
    return {
        "vendor's software": _unlike(one.vendor, other.vendor) * ECOSYSTEM,
        "generation": _unlike(one.generation, other.generation) * GENERATION,
        "width of the matrix unit": _doublings(one.width, other.width) * PER_DOUBLED_WIDTH,
        "formats of the matrix unit": len(one.formats ^ other.formats) * PER_FORMAT,
        "kind of memory": _unlike(_kind(one.memory), _kind(other.memory)) * MEMORY
        + _unlike(one.memory, other.memory) * MEMORY_GENERATION,
        "power a peak FLOP/s": _doublings(one.power, other.power) * PER_DOUBLED_POWER,
        "year": _between(one.year, other.year) * PER_YEAR,
    }


def distance(one: Features, other: Features) -> float:
    """The distance of two accelerators: the sum of their steps in all features.

    Source: definition; the weights are assumed: another vendor's software is as far as four doublings of the width.
    """
    return sum(steps(one, other).values())


def nearest(tables: Tables, accelerator: Row, column: str = "") -> Kin | None:
    """The nearest other accelerator that has a row of kernel efficiencies of its own; None if there is none.

    Args:
        tables: the lookup tables.
        accelerator: the accelerator that lacks coefficients.
        column: the coefficient that it lacks, if it lacks only one: its value on the kin is then in no doubt.
    """
    own, best, least = features_of(accelerator), None, math.inf
    for other in measured(tables, column):
        far = distance(own, features_of(other))
        if other.name != accelerator.name and far < least:
            best, least = other, far
    kernels = own_kernels(tables, best) if best else None
    if best is None or kernels is None:
        return None
    near = [name for name, step in steps(own, features_of(best)).items() if step < NEAR]
    return Kin(best.name, kernels, ", ".join(near) or "nothing that its row states")


def measured(tables: Tables, column: str = "") -> Iterator[Row]:
    """The accelerators that have a row of kernel efficiencies of their own, in which a column, if one is named, is in no doubt."""
    for name in tables.names(ACCELERATORS):
        accelerator = tables.row(ACCELERATORS, name)
        kernels = own_kernels(tables, accelerator)
        if kernels is not None and (not column or _is_told(accelerator, kernels, column)):
            yield accelerator


def _is_told(accelerator: Row, kernels: Row, column: str) -> bool:
    """Whether a row tells a column: its value is in no doubt, and the accelerator has a peak in its format.

    A clock tells about other accelerators only if it was fitted: where the 16-bit share has the clock in it, the clock is 1.
    """
    return (
        kernels.columns.get(column) is not None
        and column not in kernels.unverified
        and (column != CLOCK or column in kernels.fitted)
        and (column not in TIED or accelerator.columns.get(TIED[column]) is not None)
    )


def own_kernels(tables: Tables, accelerator: Row) -> Row | None:
    """The row of kernel efficiencies of an accelerator: the one that it names, that of its name, or of a row that it extends."""
    names = (*names_of_kernels(accelerator), *accelerator.ancestors)
    return next((tables.row(KERNELS, name) for name in names if tables.has(KERNELS, name)), None)


def names_of_kernels(accelerator: Row) -> tuple[str, ...]:
    """The names that an accelerator's own row of kernel efficiencies may have: the one that it names, and its own."""
    named = accelerator.columns.get(KERNELS)
    return (*([named] if isinstance(named, str) else []), accelerator.name)


def in_doubt(accelerator: Row, kernels: Row) -> Iterator[str]:
    """The coefficients of an accelerator that its row of kernel efficiencies leaves to its kin."""
    if CLOCK in kernels.unverified and CLOCK in kernels.inherited:
        yield CLOCK
    yield from (name for name, peak in TIED.items() if name in kernels.unverified and accelerator.columns.get(peak))


def of_kin(kernels: Row, kin: Kin, column: str) -> float:
    """A coefficient in doubt, from its kin: the kin's value or, for a share that is tied, this row's 16-bit share by the kin's ratio.

    Args:
        kernels: the row in which it is in doubt.
        kin: the nearest accelerator where it is known.
        column: the coefficient.

    Source: definition.
    """
    value = float(kin.kernels.columns[column])
    return value if column not in TIED else value / kin.kernels.columns[PRODUCTS] * kernels.columns[PRODUCTS]


def _formats(row: Row) -> frozenset[str]:
    """The formats of an accelerator's matrix units; one that has only the rate of a wider format is not one of them.

    A peak that its row leaves empty is of a format that the units have, at a rate that no source agrees on.
    """
    rates = {name: _number(row, f"{name}_peak_flop_rate", "flop/s") or 0.0 for name in FORMATS}
    wider = {"bf16": 0.0, "fp8": rates["bf16"], "fp4": rates["fp8"]}
    is_empty = {name: row.columns.get(f"{name}_peak_flop_rate", 0.0) is None for name in FORMATS}
    return frozenset(name for name in FORMATS if is_empty[name] or rates[name] > wider[name])


def _number(row: Row, column: str, unit: str) -> float | None:
    """A column as a number in a unit; None if the row does not state it."""
    value = row.columns.get(column)
    try:
        return None if value is None else float(parse(value, unit))
    except UnitError:
        return None


def _word(text: object) -> str | None:
    """The first word of a text; None if there is none."""
    return next(iter(str(text or "").split()), None)


def _kind(memory: str | None) -> str | None:
    """The kind of memory without its generation: HBM for HBM2e, GDDR for GDDR6X."""
    return memory and memory.rstrip("eXx0123456789")


def _unlike(one: object, other: object) -> float:
    """1 for features that differ, 0 for equal ones, and a half if one of them is not stated."""
    return UNSTATED if one is None or other is None else float(one != other)


def _between(one: float | None, other: float | None) -> float:
    """The difference of two years; a half if one of them is not stated."""
    return UNSTATED if one is None or other is None else abs(one - other)


def _doublings(one: float | None, other: float | None) -> float:
    """How often the smaller of two numbers must be doubled to be the larger one; a half if one of them is not stated."""
    return UNSTATED if not one or not other else abs(math.log2(one / other))
