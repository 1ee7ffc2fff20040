"""64 accelerators in nodes of 8, and a network whose dimensions divide by everything asked of them here."""

from functools import reduce
from operator import or_
from typing import Any

import amped
from amped.theory.language.quantity import ACCELERATOR
from tests.helpers.formulas import sectioned

Values = dict[str, Any]
NETWORK_VALUES: Values = {"layers": 64, "dimensionality": 8192, "attention_heads": 64, "vocabulary_size": 32000,
                  "context": 2048, "batch_size": 256, "tokens_to_train": 1e9}  # fmt: skip
MACHINE: Values = {"number_of_accelerators_per_node": 8}
ACCELERATOR_VALUES: Values = {"fp16_peak_flop_rate": 1e14, "memory_capacity": 8e10, "memory_bandwidth": 1e12}
ALL_OF_IT = {"number_of_accelerators": 64}


def toy(*values: Values, rows: dict[str, str] | None = None, **more: object) -> Values:
    """A config of bare values, each in its own section, and table rows by section; what comes later overrules."""
    return sectioned(reduce(or_, (*values, more)), rows)


def mapped(**mapping: object) -> amped.Estimate:
    return amped.estimate(toy(NETWORK_VALUES, MACHINE, ACCELERATOR_VALUES, mapping))


def degrees(estimate: amped.Estimate, kind: str) -> tuple[float, float, float]:
    """Whole, inside the node, across nodes."""
    whole, inside, across = (estimate[f"{place}{kind}_parallel_degree"] for place in ("", "intra_node_", "inter_node_"))
    return whole, inside, across


def on_a100(**values: object) -> Values:
    return toy(NETWORK_VALUES, MACHINE, values, rows={ACCELERATOR: "A100 SXM 80GB"})
