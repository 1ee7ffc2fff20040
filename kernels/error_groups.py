"""The errors of a fit, by groups of records."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from amped.kernels.fitting import Fitted
from amped.kernels.specs import Record

# The work above which a product is large, the work below which it is small, and the rows or columns of a skinny one.
LARGE, SMALL, SKINNY = {"cpu": 5e8, "cuda": 1e11}, {"cpu": 1e8, "cuda": 1e10}, 64


@dataclass(frozen=True)
class Stratum:
    """The errors of a group of records.

    Attributes:
        train, held_out: the mean absolute error in the fit, and of each half by the fit to the other half.
        bias: the mean signed error in the fit.
    """

    family: str
    name: str
    count: int
    train: float
    held_out: float
    bias: float


def strata(family: str, records: Sequence[Record], fit: Fitted, device: str) -> list[Stratum]:
    """The errors of a family: those of all its records, then those of each group."""
    names = [stratum_of(r, device) for r in records]
    masks = {name: np.array(names) == name for name in dict.fromkeys(names)}
    masks = {"all": np.ones(len(records), dtype=bool), **masks}
    means = (np.abs(fit.errors), np.abs(fit.held_out), fit.errors)
    return [
        Stratum(family, name, int(mask.sum()), *(float(errors[mask].mean()) for errors in means))
        for name, mask in masks.items()
    ]


def stratum_of(record: Record, device: str) -> str:
    """The group of a record: batched, grouped, skinny, small, medium or large for a product; else the kernel's name."""
    p = record["params"]
    if "m" not in p:
        return str(record["kernel"])
    if record["kernel"] in ("batched_gemm", "grouped_gemm"):
        return str(record["kernel"]).removesuffix("_gemm")
    if min(p["m"], p["n"]) <= SKINNY:
        return "skinny"
    return "large" if record["flop"] >= LARGE[device] else "small" if record["flop"] < SMALL[device] else "medium"
