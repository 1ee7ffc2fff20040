"""Writes a config as text that an editor understands."""

from __future__ import annotations

import json
from importlib import resources
from pathlib import Path
from typing import Any


def schema_uri() -> str:
    """The address of the schema of the installed amped, for an editor."""
    return Path(str(resources.files("amped.schema").joinpath("config.schema.json"))).resolve().as_uri()


def as_json(config: dict[str, Any]) -> str:
    """The config as text, with a line for each parameter."""

    def lines(value: Any, depth: int) -> str:
        if not isinstance(value, dict) or not value or "value" in value or "lookup_table_row" in value:
            return json.dumps(value, ensure_ascii=False)
        inner = (f"{' ' * (depth + 1)}{json.dumps(k)}: {lines(v, depth + 1)}" for k, v in value.items())
        return "{\n" + ",\n".join(inner) + "\n" + " " * depth + "}"

    return lines(config, 0) + "\n"
