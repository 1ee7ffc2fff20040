"""The page of `amped app` as a program of its own: it is started, asked and ended."""

import http.client
import json
import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlsplit

from tests.helpers.places import ROOT

ENDS_IN = 20
# The times that `--json` has beside those of the numbers of the page; the page has them in words.
OTHER_RUNS = ("step_time_of_recipe", "step_time_of_plain", "step_time_of_first_run", "notices")


@dataclass
class Served:
    """A server that runs: its process, and the address that it printed."""

    process: subprocess.Popen[str]
    address: str

    @property
    def port(self) -> int:
        return urlsplit(self.address).port or 0

    @property
    def path(self) -> str:
        """The path of the page, which is the token."""
        return urlsplit(self.address).path

    def request(
        self, path: str, method: str = "GET", body: bytes | None = None, headers: Mapping[str, str] | None = None
    ) -> tuple[int, str, http.client.HTTPMessage]:
        """The status, the text and the headers of an answer."""
        link = http.client.HTTPConnection("127.0.0.1", self.port, timeout=30)
        try:
            link.request(method, path, body, dict(headers or {}))
            answer = link.getresponse()
            return answer.status, answer.read().decode("utf-8", "replace"), answer.headers
        finally:
            link.close()

    def ask(self, name: str, **question: Any) -> Any:
        """The answer to a question of the page."""
        status, text, _ = self.request(self.path + name, "POST", json.dumps(question).encode())
        assert status == 200, text
        return json.loads(text)

    def end(self, by: signal.Signals = signal.SIGINT) -> tuple[int, str]:
        """The exit code and what was still printed after a signal."""
        self.process.send_signal(by)
        rest, _ = self.process.communicate(timeout=ENDS_IN)
        return self.process.returncode, rest


@contextmanager
def serving(*options: object) -> Iterator[Served]:
    """A server in a process of its own, which is over when this is."""
    environment = os.environ | {"PYTHONPATH": str(ROOT), "PYTHONUNBUFFERED": "1", "PYTHONWARNINGS": "error"}
    started = subprocess.Popen(
        [sys.executable, "-m", "amped", "app", *map(str, options)],
        stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, env=environment, cwd=ROOT,
    )  # fmt: skip
    try:
        assert started.stdout
        first = started.stdout.readline()
        found = re.search(r"http://\S+", first)
        assert found, first + started.stdout.read()
        yield Served(started, found[0])
    finally:
        started.kill()
        started.communicate()
