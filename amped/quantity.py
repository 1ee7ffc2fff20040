"""The marks, for formulas of your own: `from amped.quantity import NETWORK, parameter, quantity`.

The file `amped/theory/language/quantity.py` says what each mark means.
"""

from amped.theory.language.quantity import (
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
