"""Which tests run: without an option all that are not `thorough`; `--left-out` runs what the run before it left out.

Further cases of a test that draws many are `on_request`: they run with that option only, whatever else is asked.

A run leaves out the thorough tests, and those that skip because an extra is missing. So an environment that is exactly the README's
runs its command first, and after the extras are installed `--left-out` runs the rest, each test once.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

# The date of all runs, 2026-07-01, so that no price grows old.
DAY_OF_TESTS = "1782864000"
# Where the cache of pytest keeps what a run skipped: nodes of its tree of tests, files among them.
SKIPPED_NODES = "amped/skipped_nodes"


def pytest_addoption(parser: pytest.Parser) -> None:
    options = parser.getgroup("amped")
    options.addoption("--thorough", action="store_true", help="run the thorough tests, too")
    options.addoption("--on-request", action="store_true", help="run further cases of tests that draw many, too")
    options.addoption("--left-out", action="store_true", help="run only what the run before left out")


def pytest_configure(config: pytest.Config) -> None:
    os.environ.setdefault("SOURCE_DATE_EPOCH", DAY_OF_TESTS)
    # The tables of who runs the tests stay out; browsers keep their settings there.
    os.environ["XDG_CONFIG_HOME"] = str(Path(tempfile.gettempdir()) / "settings of tests")
    for name in ("AMPED_LOOKUP_TABLES", "AMPED_CLOUD"):
        os.environ.pop(name, None)
    config.pluginmanager.register(Selection(config))


def is_named(item: pytest.Item, arguments: list[str]) -> bool:
    """Whether the command names the test's file or the test itself: then it runs also if it is thorough."""
    files = {Path(argument.partition("::")[0]).name for argument in arguments}
    return item.path.name in files


class Selection:
    """The tests of one run, and what it skipped."""

    def __init__(self, config: pytest.Config) -> None:
        self.config = config
        self.cache: pytest.Cache | None = getattr(config, "cache", None)  # none with -p no:cacheprovider
        self.skipped_nodes: set[str] = set()

    def pytest_collection_modifyitems(self, items: list[pytest.Item]) -> None:
        kept = list(self._kept(items))
        self.config.hook.pytest_deselected(items=[item for item in items if item not in {*kept}])
        items[:] = kept

    def _kept(self, items: list[pytest.Item]) -> Iterator[pytest.Item]:
        skipped_before = set(self.cache.get(SKIPPED_NODES, [])) if self.cache else set()
        for item in items:
            if item.get_closest_marker("on_request") is not None and not self.config.option.on_request:
                continue
            is_thorough = item.get_closest_marker("thorough") is not None
            if self.config.option.left_out:
                was_skipped = item.nodeid in skipped_before or item.nodeid.partition("::")[0] in skipped_before
                is_kept = is_thorough or was_skipped
            else:
                is_kept = not is_thorough or self.config.option.thorough or is_named(item, self.config.args)
            if is_kept:
                yield item

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if report.skipped:
            self.skipped_nodes.add(report.nodeid)

    def pytest_collectreport(self, report: pytest.CollectReport) -> None:
        if report.skipped:
            self.skipped_nodes.add(report.nodeid)

    def pytest_sessionfinish(self) -> None:
        is_worker = hasattr(self.config, "workerinput")
        if not is_worker and not self.config.option.left_out and self.cache:
            self.cache.set(SKIPPED_NODES, sorted(self.skipped_nodes))
