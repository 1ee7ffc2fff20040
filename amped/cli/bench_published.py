"""`amped bench published`: published times of single layers, and Tempo's table, beside predictions."""

from __future__ import annotations

from dataclasses import asdict

from amped.cli import options


def published(as_json: bool = False, lookup_tables: options.Folders = None) -> None:
    """Print published figures of single layers beside predictions: Transformer Engine's ladder, Substation, and Tempo.

    Example: amped bench published
    """
    from amped.layers.published import figures

    rows = list(figures(lookup_tables))
    if as_json:
        options.show_json({"figures": [{**asdict(row), "error": row.error} for row in rows]})
        return
    from amped.report.benching import published as table

    options.show(table(rows))
