"""`amped coefficients`: every coefficient, what selects it, and which were fitted."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING

from amped.cli import options
from amped.theory.language.catalogue import catalogue

if TYPE_CHECKING:
    from amped.tables.tables import Tables


def coefficients(
    accelerator: str = "", filter_text: str = "", as_json: bool = False, lookup_tables: options.Folders = None
) -> None:
    """List every coefficient: unit, bounds, what selects it, its values, and how many of each row were fitted.

    A coefficient belongs to an accelerator (or its generation), a precision, a system or a software stack, never to a
    network or a measurement. `amped show ROW` prints those of one row with their sources. Below are the numbers that are
    fitted to training steps, with the rows and the sources behind each. With an accelerator, the list says for each of its
    kernel coefficients whether it was measured, fitted, assumed, or taken from the nearest accelerator, and why from that one.

    Example: amped coefficients --filter attention

    Options:
        accelerator ACCELERATOR: Where its coefficients come from.
        filter_text --filter -f TEXT: Only names with this text.
        as_json --json: Print all values as JSON, SI units.
    """
    from amped.calibration import listing
    from amped.calibration.step_table import shipped_numbers

    tables = options.user_tables(lookup_tables)
    if accelerator:
        _of_accelerator(tables, accelerator, filter_text, as_json)
        return
    rows = [c for c in listing.coefficients(tables, catalogue()) if filter_text.casefold() in c.name.casefold()]
    counts = listing.counts(tables)
    numbers = [n for n in shipped_numbers() if filter_text.casefold() in n.column.casefold()]
    if as_json:
        content = {"coefficients": [*map(asdict, rows)], "fitted": [*map(asdict, counts)]}
        options.show_json(content | {"fitted_to_steps": [*map(asdict, numbers)]}, allow_nan=False)
        return
    if not rows:
        options.tell(f"no coefficient has {filter_text!r}")
        return
    from amped.report.coefficients import listed

    options.show(listed(rows, counts, numbers))


def _of_accelerator(tables: Tables, accelerator: str, filter_text: str, as_json: bool) -> None:
    """Prints where each kernel coefficient of an accelerator comes from."""
    from amped.calibration.provenance import origins

    found = [origin for origin in origins(tables, accelerator) if filter_text.casefold() in origin.name.casefold()]
    if as_json:
        options.show_json([asdict(origin) for origin in found], allow_nan=False)
    elif not found:
        options.tell(f"no coefficient has {filter_text!r}")
    else:
        from amped.report.coefficients import of_accelerator

        options.show(of_accelerator(found))
