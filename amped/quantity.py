"""The marks, for formulas of your own: `from amped.quantity import NETWORK, parameter, quantity`.

What each says: `amped/theory/quantity.py`.
"""

from amped.theory.quantity import (
    ACCELERATOR,
    CATEGORIES,
    MAPPING,
    NETWORK,
    SYSTEM,
    Mark,
    family,
    mark_of,
    parameter,
    quantity,
    records,
    selector,
)

__all__ = [
    "ACCELERATOR", "CATEGORIES", "MAPPING", "NETWORK", "SYSTEM", "Mark", "family", "mark_of", "parameter", "quantity", "records", "selector",
]  # fmt: skip
