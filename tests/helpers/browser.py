"""A browser without a window, for pages from disk without a network and for those of a server on this machine."""

import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

ARGUMENTS = ["--no-sandbox", "--disable-gpu"]
WIDTHS = (1280, 390)
# By how much a page is wider than its window.
OVERFLOW = "document.documentElement.scrollWidth - document.documentElement.clientWidth"


@dataclass
class Opened:
    """An open page, what it said on the console, and the addresses that it asked for."""

    page: Any
    told: list[str] = field(default_factory=list)
    asked: list[str] = field(default_factory=list)


def chromium() -> str:
    """The browser of this machine; the test is skipped by name where there is none."""
    pytest.importorskip("playwright", reason="engine browser: playwright is not installed")
    found = os.environ.get("AMPED_CHROMIUM") or shutil.which("chromium")
    if found is None:
        pytest.skip("engine browser: chromium is not installed")
    return str(found)


@contextmanager
def browser() -> Iterator[Any]:
    """The browser, which ends with the test."""
    path = chromium()
    from playwright.sync_api import sync_playwright

    with sync_playwright() as running:
        found = running.chromium.launch(executable_path=path, args=ARGUMENTS)
        yield found
        found.close()


@contextmanager
def opened(found: Any, file: Path, width: int = 1280, scheme: str = "light") -> Iterator[Opened]:
    """A page from disk with the network off."""
    with visited(found, file.as_uri(), width, scheme, offline=True) as told:
        yield told


@contextmanager
def visited(
    found: Any, address: str, width: int = 1280, scheme: str = "light", offline: bool = False
) -> Iterator[Opened]:
    """A page at an address, with what it says and asks for."""
    context = found.new_context(viewport={"width": width, "height": 900}, color_scheme=scheme, offline=offline)
    told = Opened(context.new_page())
    told.page.on("console", lambda message: told.told.append(message.text))
    told.page.on("pageerror", lambda error: told.told.append(str(error)))
    told.page.on("dialog", lambda dialog: told.told.append(f"dialog {dialog.message}"))
    told.page.on("request", lambda request: told.asked.append(request.url))
    told.page.goto(address)
    yield told
    context.close()


def serious(page: Any) -> dict[str, list[str]]:
    """What axe finds serious or critical on a page: for each rule, the elements that break it."""
    axe = pytest.importorskip("axe_playwright_python", reason="engine browser: axe is not installed")
    page.evaluate((Path(str(axe.__file__)).parent / "axe.min.js").read_text("utf-8"))
    found = page.evaluate("axe.run(document, {resultTypes: ['violations']})")["violations"]
    bad = (each for each in found if each["impact"] in ("serious", "critical"))
    return {each["id"]: [node["html"][:200] for node in each["nodes"]] for each in bad}
