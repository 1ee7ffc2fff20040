"""A report as one HTML file that needs no other, and that a browser opens from disk without a request to any host."""

from __future__ import annotations

import base64
import hashlib
import json
from collections.abc import Sequence
from functools import cache
from importlib import resources
from textwrap import shorten
from typing import Any

from amped.base.extras import from_extra
from amped.base.version import __version__
from amped.report.page.topics import Heading, Topic

LONGEST_TITLE = 160


def as_html(configs: Sequence[Heading], topics: Sequence[Topic], command: str) -> str:
    """The page as HTML. The template escapes every text; the browser may run three scripts and fetch nothing.

    Raises:
        ConfigError: if the template engine is not installed.
    """
    scripts = [shipped("echarts/echarts.min.js"), shipped("pictures.js"), shipped("page.js")]
    title = " and ".join(shorten(config.what, LONGEST_TITLE, placeholder=" …") for config in configs)
    page: str = _template().render(
        title=shorten(f"amped: {title}", LONGEST_TITLE, placeholder=" …"), configs=configs, topics=topics, command=command,
        version=__version__, charts=json.loads(shipped("echarts/ABOUT.json")), hashes=" ".join(map(_allowed, scripts)),
        style=_trusted(shipped("page.css")), scripts=[_trusted(script) for script in scripts],
    )  # fmt: skip
    return page


def shipped(name: str) -> str:
    """The text of a file that belongs to pages, by its path in this folder."""
    return resources.files("amped.report.page").joinpath(*name.split("/")).read_text("utf-8")


@cache
def _template() -> Any:
    """The template of a page, which is read once."""
    jinja2 = from_extra("jinja2", "report", "a report")
    environment = jinja2.Environment(autoescape=True, undefined=jinja2.StrictUndefined, trim_blocks=True)
    return environment.from_string(shipped("page.html"))


def _trusted(text: str) -> Any:
    """A text of amped's own, marked so that the template does not escape the text."""
    return from_extra("markupsafe", "report", "a report").Markup(text)


def _allowed(script: str) -> str:
    """The word of a Content-Security-Policy that allows exactly this script."""
    digest = hashlib.sha256(script.encode()).digest()
    return f"'sha256-{base64.b64encode(digest).decode()}'"
