"""What the notes and the audit of a row say; what no phrase covers is told as unread."""

from __future__ import annotations

import re
from collections.abc import Container, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from amped.validation.phrases import FACTS, KEYS, MEASURED, PROVENANCE, SOFTWARE, Phrase

KEY_VALUE = re.compile(r"(?<![\w)])([A-Za-z]\w*)=([A-Za-z_]+\b|\d+(?:\.\d+)?)(?![\w/*])")
# Keys that repeat a column, or that only people use.
COLUMN_KEYS = ("tp", "pp", "cp", "ep", "dp", "vp", "mbs", "gbs", "layers", "vocab", "hfu", "mfu")
WHOLE = re.compile(
    r"^\s*(?:printed|derived|fig\.|kernel-level|memory =|CI regression)|not (?:stated|printed)", re.IGNORECASE
)


@dataclass(frozen=True)
class Reading:
    """What the notes and the audit of a row say.

    Attributes:
        facts: values of parameters; `software` and `measured` as the lists above have them.
        said: for each piece of text that says something, what it sets.
        unread: pieces that no phrase covers.
    """

    facts: Mapping[str, Any]
    software: Mapping[str, Any]
    measured: Mapping[str, Any]
    said: Mapping[str, Mapping[str, Any]]
    unread: tuple[str, ...]


def read_notes(notes: str, audit: str, known: Container[str] = ()) -> Reading:
    """Reads notes and audit; where they differ the audit, written later, is right.

    Facts stand as phrases, or as key=value with the keys of `KEYS` or the names of amped's parameters, `known`.
    """
    facts: dict[str, Any] = {}
    software: dict[str, Any] = {}
    measured: dict[str, Any] = {}
    said: dict[str, dict[str, Any]] = {}
    unread = []
    for piece in (*pieces(notes), *sentences(audit)):
        told: dict[str, Any] = {}
        for into, phrases in ((facts, FACTS), (software, SOFTWARE), (measured, MEASURED)):
            for values in _matches(phrases, piece):
                into.update(values)
                told |= values
        pairs, strangers = _pairs(piece, known)
        facts |= pairs
        told |= pairs
        if told:
            said[piece] = told
        if not told and (strangers or not _matches(PROVENANCE, piece)):
            unread.append(piece)
    return Reading(facts, software, measured, said, tuple(unread))


def _matches(phrases: tuple[Phrase, ...], piece: str) -> list[Mapping[str, Any]]:
    found = ((phrase, phrase.pattern.search(piece)) for phrase in phrases)
    return [phrase.said_by(match) for phrase, match in found if match]


def _pairs(piece: str, known: Container[str]) -> tuple[dict[str, Any], list[str]]:
    """The key=value pairs of a piece by amped's names, and the keys that nobody knows."""
    pairs: dict[str, Any] = {}
    strangers = []
    for key, written in KEY_VALUE.findall(piece):
        name = KEYS.get(key.casefold(), key)
        if (written[0].isdigit() and key.casefold() in KEYS) or key in known:
            pairs[name] = _value(written)
        elif key.casefold() not in COLUMN_KEYS:
            strangers.append(key)
    return pairs, strangers


def _value(written: str) -> Any:
    """A number, true or false, or a word."""
    truths = {"true": True, "false": False}
    return float(written) if written[0].isdigit() else truths.get(written.casefold(), written)


def pieces(notes: str) -> Iterator[str]:
    """The pieces of notes, between semicolons and commas; lists of what is printed, derived or not stated stay whole."""
    for clause in re.split(r";\s*(?![^(]*\))", notes):
        if WHOLE.search(clause):
            yield clause.strip()
        else:
            yield from (part.strip() for part in re.split(r",\s*(?![^(]*\))", clause) if part.strip())


def sentences(audit: str) -> Iterator[str]:
    """The sentences of an audit."""
    yield from (part.strip() for part in re.split(r"(?<=[\w)\]%\"])\.\s+|;\s*|\.$", audit) if part.strip())
