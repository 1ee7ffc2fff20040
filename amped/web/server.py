"""The server of the page: who may ask, and what is answered to which address."""

from __future__ import annotations

import hmac
import json
from collections.abc import Callable
from functools import partial
from importlib import resources
from typing import Any

from starlette.applications import Starlette
from starlette.concurrency import run_in_threadpool
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.middleware.trustedhost import TrustedHostMiddleware
from starlette.requests import Request
from starlette.responses import JSONResponse, PlainTextResponse, Response
from starlette.routing import Mount, Route
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from amped.base.errors import AmpedError, Problem, WrongResultError
from amped.base.words import is_unicode
from amped.report.page.writing import shipped
from amped.web.answers import Desk
from amped.web.controls import concerned

HOSTS = ["127.0.0.1", "localhost"]
# The largest question in bytes: a network's config.json, and what the controls say.
LARGEST = 300_000
# The page may run its own scripts and ask its own server. Charts set colors and places as attributes of their shapes.
POLICY = (
    "default-src 'none'; script-src 'self'; style-src-elem 'self'; style-src-attr 'unsafe-inline'; connect-src 'self'; "
    "img-src 'self' data:; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)
HEADERS = {
    "Content-Security-Policy": POLICY, "X-Content-Type-Options": "nosniff", "Referrer-Policy": "no-referrer",
    "Cache-Control": "no-store", "Cross-Origin-Opener-Policy": "same-origin", "Cross-Origin-Resource-Policy": "same-origin",
}  # fmt: skip
TYPES = {"js": "text/javascript", "css": "text/css", "html": "text/html", "svg": "image/svg+xml"}
# The files of the page, and those of a report that it uses, too. No other file is read.
OWN = (
    "index.html", "app.css", "icon.svg", "page.js", "address.js", "asking.js", "controls.js", "combobox.js", "sections.js",
    "actions.js", "drop.js", "make.js",
)  # fmt: skip
OF_REPORTS = {"page.css": "page.css", "pictures.js": "pictures.js", "echarts.js": "echarts/echarts.min.js"}
WRONG_TOKEN = "403: this address has not the token of a running `amped app`. Open the address that it printed, and put what follows # in yours behind it.\n"  # fmt: skip
QUESTIONS = ("choices", "estimate", "after", "why", "best", "export", "report", "network")


def application(desk: Desk, token: str) -> Starlette:
    """The web application: the files of the page, and the answers to its questions, below the path /`token`/."""
    questions = [Route(f"/{name}", partial(_answer, getattr(desk, name)), methods=["POST"]) for name in QUESTIONS]
    files = [Route(f"/{name if name != 'index.html' else ''}", partial(_file, text_of(name), TYPES[name.rpartition(".")[2]]))
             for name in (*OWN, *OF_REPORTS)]  # fmt: skip
    gates = [Middleware(TrustedHostMiddleware, allowed_hosts=HOSTS, www_redirect=False), Middleware(Gate, token=token)]
    return Starlette(routes=[Mount(f"/{token}", routes=[*questions, *files])], middleware=gates)


def text_of(name: str) -> str:
    """The text of a file of the page."""
    if name in OF_REPORTS:
        return shipped(OF_REPORTS[name])
    return resources.files("amped.web").joinpath("page", name).read_text("utf-8")


class Gate:
    """Refuses requests without the token or from another page, and adds the security headers to each response."""

    def __init__(self, app: ASGIApp, token: str) -> None:
        self.app, self.token = app, token.encode()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answers a request with 403, or hands it to the application."""
        if scope["type"] != "http":
            return
        token = "".join(scope["path"].split("/", 2)[1:2])  # `OPTIONS *` has none
        headers, app = Request(scope).headers, self.app
        if not hmac.compare_digest(token.encode(), self.token):
            app = PlainTextResponse(WRONG_TOKEN, 403)
        elif headers.get("origin") not in (None, f"http://{headers.get('host')}"):
            app = PlainTextResponse("403: another page may not ask\n", 403)
        await app(scope, receive, self._with_headers(send))

    def _with_headers(self, send: Send) -> Send:
        """The function `send`, with `HEADERS` added to the start of each response."""

        async def sent(message: Message) -> None:
            if message["type"] == "http.response.start":
                headers = ((name.lower().encode(), value.encode()) for name, value in HEADERS.items())
                message["headers"] = [*message["headers"], *headers]
            await send(message)

        return sent


async def _file(text: str, kind: str, _: Request) -> Response:
    """The response with a file of the page."""
    return Response(text, media_type=kind)


async def _answer(answer: Callable[[dict[str, Any]], Any], request: Request) -> Response:
    """The response to a question: the answer as JSON, or its problems in the words of the command line."""
    question = await _question(request)
    try:
        content = await run_in_threadpool(answer, question)
    except AmpedError as error:
        content = {"problems": [_problem(problem, error) for problem in error.problems]}
    except WrongResultError as error:
        text = f"this result is wrong, and not by your mistake: {error}. Please report it with the command below"
        content = {"problems": [{"text": text, "controls": []}]}
    return JSONResponse(content)


async def _question(request: Request) -> dict[str, Any]:
    """The JSON object in the body of a request.

    Raises:
        HTTPException: for a body that is too large, or that is no JSON object in Unicode.
    """
    body = b""
    async for part in request.stream():
        body += part
        if len(body) > LARGEST:
            raise HTTPException(413, f"a question has at most {LARGEST} bytes")
    try:
        question = json.loads(body or b"{}")
    except (ValueError, RecursionError):
        raise HTTPException(400, "a question is JSON") from None
    if not isinstance(question, dict):
        raise HTTPException(400, "a question is a JSON object")
    if not _is_unicode(question):
        raise HTTPException(400, "a question has text that is no Unicode: half a pair of UTF-16 stands alone")
    return question


def _is_unicode(value: Any) -> bool:
    """Whether the keys of a value, and those of all values in it, can be written as UTF-8; other texts are the reader's to judge."""
    if isinstance(value, dict):
        return all(is_unicode(key) and _is_unicode(inner) for key, inner in value.items())
    return not isinstance(value, list) or all(map(_is_unicode, value))


def _problem(problem: Problem, error: AmpedError) -> dict[str, Any]:
    """A problem as JSON: its text, and the names of the controls that it concerns."""
    text = str(problem) if len(error.problems) > 1 or not error.file else f"{error.file}: {problem}"
    return {"text": text, "controls": concerned(f"{problem.what} {problem.where} {problem.advice}")}
