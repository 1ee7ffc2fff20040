"""`amped compare`: two configurations side by side, or the best of each system, model or software."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from amped.base.commands import command
from amped.base.errors import ConfigError
from amped.cli import options, sweeping
from amped.tables.table_files import LookupTables

# The kinds of rows that are compared.
KINDS = ("system", "accelerator", "model", "software")
HINT = "The mappings are those that `amped estimate` chooses; `amped explore --vary …` searches more of each."


@options.bundled(given=options.changes)
def compare(
    given: dict[str, object],
    names: list[str] | None = None,
    vary: list[str] | None = None,
    lookup_tables: options.Folders = None,
    anchor: Path | None = None,
    as_json: bool = False,
    as_csv: bool = False,
) -> None:
    """Compare two configs, or the best mapping of each of several systems, models or values.

    Of two configs, it shows what differs in their inputs and in their results; options of the config and of the mapping
    change B: amped compare default --tp 4. A change of batch, sequence, tokens or precision is listed as another
    experiment. Systems, accelerators, models, software and values of --vary stand in one table with time, cost, energy,
    utilization and memory, each with the mapping that `amped estimate` chooses.

    Example: amped compare "DGX H100" "DGX B200" --model "Llama 3 70B" --gpus 64

    Options:
        names A [B]...: Two configs; or rows of one kind.
        --vary NAME=VALUES: Compare these values: A,B,C; repeatable.
        as_csv --csv: Print rows or values as CSV.
    """
    form = options.only(json=as_json, csv=as_csv) or "table"
    listed = _listed(given, lookup_tables)
    given = {name: value for name, value in given.items() if name not in listed}
    asking = options.Asking(None, given, options.with_anchor(anchor, given, lookup_tables))
    rows = [f"{kind}={rows}" for kind, rows in listed.items()] or _rows(asking, names or ())
    if vary and names and not rows:
        raise ConfigError("configs are not compared by --vary", command("explore", names[0], "--vary", vary[0]))
    texts = [*(vary or ()), *rows]
    if texts:
        sweeps = sweeping.read(asking, texts)
        sweeping.refuse_long(sweeps)
        sweeping.tell(sweeping.chosen(asking, sweeps), form, HINT)
    elif form == "csv":
        raise ConfigError("two configs are not compared as CSV", "--json, or rows or --vary")
    else:
        _show_configs(names or [], asking, form)


def _listed(given: Mapping[str, object], lookup_tables: LookupTables) -> dict[str, str]:
    """The options whose text lists several rows, by kind of row: --system "DGX H100,DGX B200"."""
    from amped.configuring.gathering import is_row

    texts = {kind: str(given[kind]) for kind in KINDS if "," in str(given.get(kind))}
    if not texts:
        return {}
    tables = options.user_tables(lookup_tables)
    return {kind: text for kind, text in texts.items() if not is_row(tables, kind, text)}


def _rows(asking: options.Asking, names: Sequence[str]) -> list[str]:
    """The names as a sweep of the kind of rows that most of them are; empty if one is a config, or if none is a row."""
    if len(names) < 2:
        return []
    from amped.library.answers import kind_of_rows

    kind = kind_of_rows(names, asking.lookup_tables)
    return [f'{kind}="{name}"' for name in names] if kind else []


def _show_configs(names: list[str], asking: options.Asking, form: str) -> None:
    """Prints the differences of two configs, or of a config and the same config with other values."""
    from amped.library.answers import compared

    found = compared(names, asking)
    if form == "json":
        options.show_json(found.to_dict())
    else:
        options.show(found)
