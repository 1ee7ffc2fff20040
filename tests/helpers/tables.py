"""Lookup tables of a user, written into folders and layered over the shipped ones."""

import json
from pathlib import Path

from amped.tables.tables import Tables

MINE = {"frequency": "1 GHz", "aliases": ["My chip"], "sources": ["measured"]}


def layered(root: Path, *contents: object) -> Tables:
    """Tables with a folder for each content; a content is written as the file `tables.json`, text as it stands."""
    folders = []
    for number, content in enumerate(contents):
        made = root / f"lookup-{number}"
        made.mkdir()
        (made / "tables.json").write_text(content if isinstance(content, str) else json.dumps(content), "utf-8")
        folders.append(made)
    return Tables(tuple(folders))
