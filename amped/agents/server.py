"""The server of the Model Context Protocol: lists the tools with their schemas, and passes questions on to the worker."""

from __future__ import annotations

import inspect
import json
import re
import sys
from collections.abc import Callable
from typing import Annotated, Any

import anyio
from anyio.abc import Process
from anyio.streams.buffered import BufferedByteReceiveStream
from mcp.server.mcpserver import Context, MCPServer
from mcp.server.mcpserver.exceptions import ToolError
from pydantic import Field

from amped.agents import tools
from amped.base.version import __version__

# The seconds that an answer may take, the seconds between two words on its progress, and the most bytes of an answer.
LONGEST, PULSE, LARGEST = 60.0, 2.0, 4_000_000
INSTRUCTIONS = """amped predicts how long a transformer trains, whether it fits in memory, what it costs, and which mapping is best.
Start with `estimate` (model, system, number_of_accelerators); `list` has the names. Numbers are in SI units. Each answer says how sure
it is (step_time_error_fraction: 0.1 is 10 %; grade), what is not modeled, and which question is worth asking next. Tell these to people."""


class Worker:
    """The process that answers; it is started with the first question, and anew after one that took too long."""

    def __init__(self, longest: float = LONGEST) -> None:
        self.longest = longest
        self._process: Process | None = None
        self._lines: BufferedByteReceiveStream | None = None
        self._turn = anyio.Lock()

    async def ask(self, tool: str, arguments: dict[str, Any]) -> dict[str, Any]:
        """The answer to a question.

        Raises:
            ToolError: for a mistake in the question, or an answer that takes too long.
        """
        async with self._turn:
            try:
                with anyio.fail_after(self.longest):
                    line = await self._answered(json.dumps({"tool": tool, "arguments": arguments}).encode() + b"\n")
            except TimeoutError:
                raise ToolError(
                    f"the answer took more than {self.longest:g} s: ask for less, as a smaller space"
                ) from None
            except (anyio.BrokenResourceError, anyio.EndOfStream, anyio.IncompleteRead, anyio.DelimiterNotFound):
                raise ToolError("the answer took too much memory or is too long: ask for less") from None
        told: dict[str, Any] = json.loads(line)
        if "problem" in told:
            raise ToolError(told["problem"])
        answer: dict[str, Any] = told["answer"]
        return answer

    async def _answered(self, question: bytes) -> bytes:
        """The line that answers a question; a question that is given up ends the process."""
        if self._process is None or self._process.returncode is not None:
            command = [sys.executable, "-m", "amped.agents.worker"]
            self._process = await anyio.open_process(command, stderr=None)
            out = self._process.stdout
            self._lines = None if out is None else BufferedByteReceiveStream(out)
        process, lines = self._process, self._lines
        if process.stdin is None or lines is None:
            raise anyio.BrokenResourceError
        try:
            await process.stdin.send(question)
            return await lines.receive_until(b"\n", LARGEST)
        except BaseException:
            process.kill()
            self._process = None
            raise


def server(worker: Worker | None = None) -> MCPServer[Any]:
    """The server with all tools."""
    worker = worker or Worker()
    made: MCPServer[Any] = MCPServer("amped", instructions=INSTRUCTIONS, version=__version__, log_level="WARNING")
    for name, tool in tools.TOOLS.items():
        summary = (inspect.getdoc(tool) or "").partition("\n\n")[0]
        made.add_tool(_passing(name, tool, worker), name=name, description=summary, structured_output=True)
    return made


def _passing(name: str, tool: Callable[..., Any], worker: Worker) -> Callable[..., Any]:
    """A function with the parameters of a tool that passes the question on, and tells every few seconds that it goes on."""

    async def passed(context: Context[Any, Any], **arguments: Any) -> dict[str, Any]:
        """The answer of the worker."""
        answer: dict[str, Any] | ToolError = {}
        async with anyio.create_task_group() as group:
            group.start_soon(_tell, context, worker.longest)
            try:
                answer = await worker.ask(name, arguments)
            except ToolError as error:  # raised after the group, which would wrap it
                answer = error
            finally:
                group.cancel_scope.cancel()
        if isinstance(answer, ToolError):
            raise answer
        return answer

    parameters = _parameters(tool)
    context = inspect.Parameter("context", inspect.Parameter.KEYWORD_ONLY, annotation=Context)
    passed.__signature__ = inspect.Signature([*parameters, context], return_annotation=dict[str, Any])  # type: ignore[attr-defined]
    passed.__annotations__ = {p.name: p.annotation for p in (*parameters, context)} | {"return": dict[str, Any]}
    return passed


async def _tell(context: Context[Any, Any], longest: float) -> None:
    """Tells the client every few seconds how long the answer has taken, of the seconds that it may take."""
    passed = 0.0
    while True:
        await anyio.sleep(PULSE)
        passed += PULSE
        await context.report_progress(passed, longest, "computing")


def _parameters(tool: Callable[..., Any]) -> list[inspect.Parameter]:
    """The parameters of a tool, each with its line of the docstring."""
    told = dict(re.findall(r"^    (\w+): (.+)$", (inspect.getdoc(tool) or "").partition("Args:")[2], re.M))
    signature = inspect.signature(tool, eval_str=True)
    return [
        p.replace(
            kind=inspect.Parameter.KEYWORD_ONLY, annotation=Annotated[p.annotation, Field(description=told[p.name])]
        )
        for p in signature.parameters.values()
    ]
