"""Runs the server of the page on this machine until somebody ends it."""

from __future__ import annotations

import asyncio
import contextlib
import errno
import gc
import logging
import os
import secrets
import signal
import socket
import sys
import threading
from collections.abc import Callable
from urllib.parse import urlencode

import uvicorn

from amped.base.errors import ConfigError
from amped.tables.table_files import LookupTables
from amped.web.answers import Desk
from amped.web.server import HOSTS, application
from amped.web.state import State

# The bytes of the token; after so many seconds, requests that are still answered are cut off.
TOKEN_BYTES, PATIENCE = 18, 1
# After how many new objects Python looks for garbage, in each of its generations.
GARBAGE = (5_000, 20, 20)


def run(port: int, said: State, lookup_tables: LookupTables, tell: Callable[[str], None]) -> None:
    """Serves the page until Ctrl-C or a signal to end.

    Args:
        port: the port; 0 for any that is free.
        said: the state that the page shows first.
        lookup_tables: a folder of lookup tables to layer over the shipped ones.
        tell: prints a line for the user: the address, and the end.

    Raises:
        ConfigError: for a port that is not free.
    """
    with listening(port) as listens:
        token = secrets.token_urlsafe(TOKEN_BYTES)
        server = uvicorn.Server(uvicorn.Config(
            application(Desk(lookup_tables, said), token), log_level="error", access_log=False, lifespan="off", ws="none",
            server_header=False, timeout_graceful_shutdown=PATIENCE,
        ))  # fmt: skip
        logging.getLogger("uvicorn.error").addFilter(is_worth_telling)
        gc.set_threshold(*GARBAGE)
        signal.signal(signal.SIGTERM, signal.default_int_handler)
        tell(f"open {address(listens.getsockname()[1], token, said)}\nOnly this machine can; Ctrl-C ends it.")
        with contextlib.suppress(KeyboardInterrupt):  # uvicorn may return, or hand the signal on
            server.run(sockets=[listens])
        tell("ended")
    _end()


def is_worth_telling(record: logging.LogRecord) -> bool:
    """Whether a message of the server concerns the user: not if it is only about an answer that was cut off at the end."""
    cut_off = record.exc_info is not None and isinstance(record.exc_info[1], asyncio.CancelledError)
    return not cut_off and "timeout graceful shutdown exceeded" not in record.getMessage()


def listening(port: int) -> socket.socket:
    """A listening socket on a port, which only this machine can reach.

    Raises:
        ConfigError: for a port that is not free, or that this user may not take.
    """
    listens = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
    try:
        if os.name == "posix":  # a port is free again as soon as its server has ended
            listens.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listens.bind((HOSTS[0], port))
        listens.listen()
    except OSError as error:
        listens.close()
        reasons = {errno.EADDRINUSE: "another program uses it", errno.EACCES: "this user may not take it"}
        what = f"--port {port} cannot be had: {reasons.get(error.errno or 0, str(error))}"
        raise ConfigError(what, "take another, or --port 0 for any that is free") from None
    return listens


def address(port: int, token: str, said: State) -> str:
    """The address of the page, with the state that it shows first after #."""
    return f"http://{HOSTS[0]}:{port}/{token}/{'#' if said else ''}{urlencode(said)}"


def _end() -> None:
    """Ends a search that still runs for a page that is gone: its thread would keep this process."""
    sys.stdout.flush()
    sys.stderr.flush()
    if any(thread is not threading.main_thread() and not thread.daemon for thread in threading.enumerate()):
        os._exit(0)
