"""Joins the findings of several runs of one exploration, such as those of a job array."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from amped.base.errors import ConfigError, FileError
from amped.exploration.identity import request_of
from amped.exploration.journal import Findings, header, read_findings, refuse_other
from amped.exploration.results import Finding, all_of
from amped.exploration.search import Search

MOST_MISSING = 10


def read_shard(text: str) -> tuple[int, int]:
    """The two numbers of a text such as `3/16`: which shard, of how many.

    Raises:
        ConfigError: for a text of another form, or a shard that does not exist.
    """
    share, slash, shares = text.partition("/")
    if not (slash and share.isdecimal() and shares.isdecimal() and 1 <= int(share) <= int(shares)):
        raise ConfigError(f"--shard {text!r} is not I/N with I from 1 to N", "for example --shard 3/16")
    return int(share), int(shares)


def put_together(paths: Sequence[Path], formulas: Path | None = None) -> tuple[Search, Finding, float]:
    """The search that the files are about, the findings of all its parts, and the seconds that they took together.

    Args:
        paths: the files, in any order.
        formulas: the user's own formulas, if there were any: they are code, and a file of findings may not name code.

    Raises:
        FileError: for files of different explorations, or made with other code or tables than this amped has.
        ConfigError: if a part is in none of the files.
    """
    files = {path: read_findings(path) for path in paths}
    (first, top), *others = ((path, file.header) for path, file in files.items())
    for other, its_top in others:
        refuse_other(_whole(its_top), _whole(top), other)
    asked = top["asked"]
    if asked["formulas"] and formulas is None:
        raise ConfigError("the exploration used formulas of your own", "name their file: --formulas FILE")
    try:
        request = request_of(asked, top["told"], formulas)
        search = Search(request)
    except (KeyError, TypeError, ValueError, AttributeError):
        raise FileError("has a damaged first line", "explore again, into another file", str(first)) from None
    refuse_other(_whole(top), _whole(header(request, len(search.parts), (1, 1))), first)
    findings = _union(files)
    _refuse_gaps(len(search.parts), findings, files)
    return search, all_of(findings, request.options.top), sum(file.seconds for file in files.values())


def _whole(top: Mapping[str, Any]) -> dict[str, object]:
    """The question in the first line of a file, without the shard, in which files may differ."""
    return {name: value for name, value in top["asked"].items() if name != "shard"}


def _union(files: dict[Path, Findings]) -> dict[int, Finding]:
    """Every part that is in at least one of the files."""
    findings: dict[int, Finding] = {}
    for path, file in files.items():
        for number, found in file.found.items():
            if findings.setdefault(number, found) != found:
                raise FileError(f"has other findings for part {number} than the files before it",
                                "the machines they come from do not calculate alike: explore on one kind", str(path))  # fmt: skip
    return findings


def _refuse_gaps(parts: int, findings: dict[int, Finding], files: dict[Path, Findings]) -> None:
    missing = [number for number in range(parts) if number not in findings]
    if not missing:
        return
    shards = sorted({file.header["asked"]["shard"] for file in files.values()}, key=read_shard)
    shown = ", ".join(map(str, missing[:MOST_MISSING])) + (", …" if len(missing) > MOST_MISSING else "")
    raise ConfigError(f"{len(missing)} of {parts} parts are in none of the files: {shown}",
                      f"given are the shards {', '.join(shards)}; run the others, or go on with one by --resume")  # fmt: skip
