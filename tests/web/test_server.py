"""Who may ask the page's server, and how it begins and ends."""

import contextlib
import http.client
import json
import os
import signal
import socket
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

pytest.importorskip("starlette")
pytest.importorskip("uvicorn")

from amped.web.server import HEADERS, LARGEST, OF_REPORTS, OWN, POLICY, QUESTIONS
from tests.helpers.app import Served, serving
from tests.helpers.cli import amped

LLAMA = {"model": "Llama 3 8B", "system": "DGX H100", "gpus": "16"}


@pytest.fixture(scope="module")
def served() -> Iterator[Served]:
    with serving() as found:
        yield found


def test_the_page_and_its_files_are_there_with_a_strict_policy(served: Served) -> None:
    for name in ("", *OWN[1:], *OF_REPORTS):
        status, text, headers = served.request(served.path + name)
        assert (status, bool(text)) == (200, True), name
        assert {name: headers[name] for name in HEADERS} == HEADERS
    assert "script-src 'self';" in POLICY
    assert not any(word in POLICY for word in ("unsafe-eval", "*", "http:", "script-src 'self' "))
    assert "server" not in headers


@pytest.mark.parametrize(
    ("path", "method", "headers", "status"),
    [
        ("/", "GET", {}, 403), ("/wrong/", "GET", {}, 403), ("/wrong/estimate", "POST", {}, 403),
        ("/favicon.ico", "GET", {}, 403), ("*", "OPTIONS", {}, 403),
        ("TOKEN", "GET", {"Host": "evil.example"}, 400), ("TOKEN", "GET", {"Host": "evil.example:80"}, 400),
        ("TOKENestimate", "POST", {"Host": "rebound.127.0.0.1.example"}, 400),
        ("TOKENestimate", "POST", {"Origin": "http://evil.example"}, 403), ("TOKENestimate", "POST", {"Origin": "null"}, 403),
        ("TOKENnothing", "GET", {}, 404), ("TOKEN../../etc/passwd", "GET", {}, 404), ("TOKEN%2e%2e/page.js", "GET", {}, 404),
        ("TOKENpage.js/x", "GET", {}, 404), ("TOKEN__init__.py", "GET", {}, 404),
        ("TOKENestimate", "GET", {}, 405), ("TOKEN", "POST", {}, 405), ("TOKENpage.js", "DELETE", {}, 405),
    ],
)  # fmt: skip
def test_another_token_path_method_host_or_sender_is_refused(
    served: Served, path: str, method: str, headers: dict[str, str], status: int
) -> None:
    assert served.request(path.replace("TOKEN", served.path), method, headers=headers)[0] == status


def test_the_token_is_long_and_another_each_time(served: Served) -> None:
    with serving() as other:
        assert other.path != served.path
    assert len(served.path) >= 24


@pytest.mark.parametrize(
    ("body", "status"),
    [(b"x" * (LARGEST + 1), 413), (b"{", 400), (b"[]", 400), (b"\xff", 400), (b"[" * 100_000, 400), (b"null", 400), (b'{"state": 1}', 200)],
)  # fmt: skip
def test_a_question_of_another_form_or_size_is_refused(served: Served, body: bytes, status: int) -> None:
    assert served.request(f"{served.path}estimate", "POST", body)[0] == status


def test_a_key_that_is_no_unicode_is_refused_in_words(served: Served) -> None:
    for question in (b'{"state": {"\\ud800": "x"}}', b'{"\\udfff": 1}', b'{"state": {"set": [{"\\ud800": 1}]}}'):
        status, text, _ = served.request(f"{served.path}estimate", "POST", question)
        assert (status, "no Unicode" in text) == (400, True)


def test_a_wrong_value_is_told_with_its_control(served: Served) -> None:
    (problem,) = served.ask("estimate", state=LLAMA | {"tp": "3"})["problems"]
    assert problem["controls"][0] == "tp"
    assert "--tp 3 does not divide 16 accelerators" in problem["text"]
    assert all(
        "problems" in served.ask(name, state=LLAMA | {"precision": "<b>"}) for name in QUESTIONS if name != "choices"
    )


def test_only_this_machine_reaches_it(served: Served) -> None:
    with socket.socket() as other, pytest.raises(ConnectionRefusedError):
        other.connect(("127.0.0.2", served.port))


@pytest.mark.thorough
def test_several_ask_at_once_and_each_has_its_answer(served: Served) -> None:
    states = [LLAMA | {"tp": tp, "gpus": gpus} for tp in ("1", "2", "4", "8") for gpus in ("16", "32")]
    alone = [served.ask("estimate", state=state)["sections"] for state in states]
    found: dict[int, object] = {}

    def ask(place: int) -> None:
        found[place] = served.ask("estimate", state=states[place] | {"tokens_to_train": "15e12"})["sections"]

    asking = [threading.Thread(target=ask, args=(place,)) for place in range(len(states))]
    for each in asking:
        each.start()
    served.ask("best", state=LLAMA)
    for each in asking:
        each.join()
    assert [json.dumps(found[place])[:4000] for place in range(len(states))] == [
        json.dumps(each)[:4000] for each in alone
    ]


# --- begin and end ----------------------------------------------------------------------------------------------------


def test_a_port_in_use_is_told_in_one_sentence(served: Served, tmp_path: Path) -> None:
    told = amped("app", "--port", served.port, folder=tmp_path)
    assert told.returncode == 2
    assert told.stderr.startswith(f"amped: --port {served.port} cannot be had: another program uses it\n")
    assert "Traceback" not in told.stderr


@pytest.mark.parametrize("module", ["starlette", "uvicorn", "jinja2"])
def test_a_missing_extra_is_told(module: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, module, None)
    told = amped("app", folder=tmp_path)
    assert (told.returncode, "pip install 'amped[app]'" in told.stderr) == (2, True)


def test_wrong_options_are_told(tmp_path: Path) -> None:
    assert amped("app", "--port", "70000", folder=tmp_path).returncode == 2
    assert amped("app", "--port", "x", folder=tmp_path).returncode == 2


@pytest.mark.thorough
@pytest.mark.parametrize("by", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_ends_it_also_while_it_searches_and_nothing_is_left(by: signal.Signals) -> None:
    with serving("--model", "DeepSeek V3", "--gpus", "2048") as one:
        state = {"model": "DeepSeek V3", "system": "DGX H100", "gpus": "2048"}
        searching = threading.Thread(target=_until_it_ends, args=(one, state))
        searching.start()
        time.sleep(0.5)
        code, rest = one.end(by)
        searching.join()
        assert (code, rest.splitlines()[-1:], "Traceback" in rest) == (0, ["ended"], False), rest
        with pytest.raises(ProcessLookupError):
            os.killpg(one.process.pid, 0)
        with socket.socket() as free:
            free.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            free.bind(("127.0.0.1", one.port))


def _until_it_ends(served: Served, state: dict[str, str]) -> None:
    with contextlib.suppress(OSError, http.client.HTTPException, AssertionError):
        served.ask("best", state=state)


@pytest.mark.thorough
def test_options_are_what_the_page_shows_first() -> None:
    with serving("--model", "Llama 3 8B", "--gpus", "8", "--tp", "2") as one:
        assert one.address.endswith("#model=Llama+3+8B&gpus=8&tp=2")
        assert one.ask("choices")["first"] == {"model": "Llama 3 8B", "gpus": "8", "tp": "2"}
