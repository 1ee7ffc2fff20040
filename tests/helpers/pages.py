"""Reads a page as a browser does: named values, tables, pictures as data, and every address that it could fetch."""

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from html.parser import HTMLParser
from typing import Any

# The attributes that make a browser fetch something by itself.
FETCHING = ("src", "srcset", "data", "poster", "action", "background", "manifest")


@dataclass
class Page(HTMLParser):
    """What stands on a page.

    Attributes:
        named: for each config and name, the exact values that stand under it.
        tables: for each caption, its rows of exact values.
        pictures: the data of each picture, by its place.
        fetched: addresses that a browser would fetch.
        labels: what a reader of the screen says of pictures.
        scripts: the texts of the scripts that run.
        text: all text.
    """

    named: dict[tuple[int, str], list[Any]] = field(default_factory=dict)
    tables: dict[str, list[list[list[Any]]]] = field(default_factory=dict)
    pictures: dict[str, dict[str, Any]] = field(default_factory=dict)
    fetched: list[str] = field(default_factory=list)
    labels: list[str] = field(default_factory=list)
    scripts: list[str] = field(default_factory=list)
    text: str = ""

    def __post_init__(self) -> None:
        super().__init__()
        self._open: list[tuple[str, Mapping[str, str | None]]] = []
        self._caption = ""

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Opens an element."""
        given = dict(attrs)
        self.fetched += [str(given[name]) for name in FETCHING if name in given and tag != "data"]
        if tag == "link" or (tag == "a" and not str(given.get("href")).startswith("#")):
            self.fetched.append(str(given.get("href")))
        if tag not in ("meta", "link", "br"):
            self._open.append((tag, given))
        if given.get("role") == "img":
            self.labels.append(str(given["aria-label"]))
        if tag == "data":
            self._value(given)
        elif tag == "tr" and self._within("tbody"):
            self.tables[self._caption][-1].append([])

    def _value(self, given: Mapping[str, str | None]) -> None:
        value = json.loads(str(given["value"]))
        if given.get("data-name"):
            self.named.setdefault((int(str(given["data-config"])), str(given["data-name"])), []).append(value)
        if self._within("tbody"):
            self.tables[self._caption][-1][-1].append(value)

    def handle_endtag(self, tag: str) -> None:
        """Closes the element that was opened last."""
        if tag not in ("meta", "link", "br"):
            assert self._open.pop()[0] == tag

    def handle_data(self, data: str) -> None:
        """Text, or what a script says."""
        tag, given = self._open[-1] if self._open else ("", {})
        if tag == "script" and given.get("type") == "application/json":
            self.pictures[str(given["data-picture"])] = json.loads(data)
        elif tag == "script":
            self.scripts.append(data)
        elif tag == "caption":
            self._caption = data
            self.tables.setdefault(data, []).append([])
        self.text += data if tag not in ("script", "style") else ""

    def _within(self, tag: str) -> bool:
        return any(each == tag for each, _ in self._open)


def read(html: str) -> Page:
    """A page that was read to its end."""
    page = Page()
    page.feed(html)
    page.close()
    return page
