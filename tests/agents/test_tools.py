"""What agents ask: tools with plain data in and out, a worker that opens no file, and the official client on both."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from amped.agents import tools
from amped.base.errors import AmpedError
from tests.helpers.places import ROOT

RUN = {"model": "Llama 3 8B", "system": "DGX H100", "number_of_accelerators": 16}
SURE = {"step_time_error_fraction", "grade", "not_modeled", "next_questions"}
LLAMA = {
    "model_type": "llama", "architectures": ["LlamaForCausalLM"], "num_hidden_layers": 4, "hidden_size": 1024,
    "intermediate_size": 4096, "num_attention_heads": 8, "num_key_value_heads": 8, "vocab_size": 32000,
    "max_position_embeddings": 2048, "tie_word_embeddings": False, "torch_dtype": "bfloat16", "hidden_act": "silu",
}  # fmt: skip
# Tool, arguments, and a word of the answer; wrong, partial and hostile ones are refused with a word that helps.
ASKED = [
    ("estimate", RUN, "step_time"),
    ("estimate", {"model": LLAMA, "system": "DGX A100", "number_of_accelerators": 8}, "step_time"),
    ("list", {"what": "models", "containing": "llama 3"}, "Llama 3 70B"),
    ("list", {"what": "parameters", "containing": "water"}, "liter"),
    ("import", {"content": json.dumps(LLAMA)}, "huggingface"),
    ("export", {"form": "megatron", **RUN}, "--num-layers 32"),
]
REFUSED = [
    ("estimate", {"model": "Llama 9"}, "no row"),
    ("estimate", {"model": "/etc/passwd"}, "no row"),
    ("estimate", {"model": "../../secret.json", "system": "DGX H100"}, "no row"),
    ("estimate", {**RUN, "settings": {"tensor_parallel_degree": 3}}, "tensor_parallel_degree=2 or 4"),
    ("estimate", {**RUN, "settings": {"measured_kernel_table": "/etc/passwd"}}, "no file is read"),
    ("estimate", {**RUN, "settings": {"lengths": "/etc/passwd"}}, "no file is read"),
    ("estimate", {**RUN, "settings": {"nothing": 1}}, "nothing"),
    ("estimate", {**RUN, "settings": {f"a{n}": n for n in range(99)}}, "more than 64"),
    ("estimate", {**RUN, "number_of_accelerators": 10**12}, "1,000,000"),
    ("estimate", {**RUN, "number_of_accelerators": -1}, "1,000,000"),
    ("estimate", {"config": {"neural_network_training_parameters": {"parameters": {"formulas": {"value": "/etc/passwd"}}}}}, "formulas"),
    ("explore", {**RUN, "top": 10**9}, "1 to 20"),
    ("why", {**RUN, "measured_step_time": -1.0}, "above 0"),
    ("recommend", {"model": "Llama 3 8B"}, "deadline"),
    ("import", {"content": "{}", "name": "../x"}, "plain name"),
    ("import", {"content": "rm -rf /", "name": "run.sh"}, "no format"),
    ("export", {"form": "make", **RUN}, "no format"),
    ("list", {"what": "parameters", "nothing": 1}, "nothing"),
    ("nothing", {}, "no tool"),
]  # fmt: skip


def in_words(problem: AmpedError) -> str:
    from amped.library.words import in_python

    return in_python(str(problem))


@pytest.mark.parametrize(("tool", "arguments", "word"), ASKED)
def test_a_question_has_its_answer_and_how_sure_it_is(tool: str, arguments: dict[str, object], word: str) -> None:
    found = tools.answer(tool, arguments)
    assert word in json.dumps(found, allow_nan=False)
    assert found["next_questions"]
    assert tool in ("list", "import") or found.keys() >= SURE


@pytest.mark.parametrize(("tool", "arguments", "word"), REFUSED)
def test_a_wrong_question_is_refused_with_what_helps(tool: str, arguments: dict[str, object], word: str) -> None:
    with pytest.raises((AmpedError, TypeError)) as refused:
        tools.answer(tool, arguments)
    told = in_words(refused.value) if isinstance(refused.value, AmpedError) else str(refused.value)
    assert word in told


GUARDED = """
import sys, tempfile
from amped.agents.worker import guard
sys.addaudithook(guard([sys.argv[1]]))
def refused(work):
    try: work()
    except PermissionError as error: return True
    return False
import subprocess, os, socket
print(refused(lambda: open(sys.argv[2])), refused(lambda: open(sys.argv[2], "w")), refused(lambda: os.listdir("/")),
      refused(lambda: subprocess.run(["true"])), refused(lambda: socket.create_connection(("127.0.0.1", 9))),
      refused(lambda: open(sys.argv[1] + "/own", "w").close()), refused(lambda: os.system("true")))
"""


def test_the_worker_opens_no_file_starts_nothing_and_calls_nobody(tmp_path: Path) -> None:
    (tmp_path / "own").mkdir()
    (tmp_path / "secret").write_text("x")
    command = [sys.executable, "-c", GUARDED, str(tmp_path / "own"), str(tmp_path / "secret")]
    done = subprocess.run(command, capture_output=True, text=True, check=True, cwd=ROOT)
    assert done.stdout.split() == ["True", "True", "True", "True", "True", "False", "True"]


@pytest.mark.thorough
def test_the_official_client_lists_and_calls_every_tool(tmp_path: Path) -> None:
    pytest.importorskip("mcp")
    import anyio
    from mcp import Client, StdioServerParameters

    asked = [*ASKED[1:], ("why", RUN, "waterfall"), ("support", RUN, "aspects"), ("explore", {**RUN, "top": 2}, "ranking"),
             ("recommend", {"model": "Llama 3 8B", "systems": ["DGX H100"], "deadline": "900 days"}, "machines")]  # fmt: skip

    async def talk() -> None:
        parameters = StdioServerParameters(command=sys.executable, args=["-m", "amped", "mcp"], cwd=str(tmp_path),
                                           env={"PYTHONPATH": str(ROOT), "PATH": "/usr/bin:/bin"})  # fmt: skip
        async with Client(parameters) as client:
            listed = (await client.list_tools()).tools
            assert {tool.name for tool in listed} == {*tools.TOOLS}
            for tool in listed:
                assert tool.description
                properties = tool.input_schema["properties"]
                assert all(p.get("description") for p in properties.values()), tool.name
            for tool, arguments, word in asked:
                found = await client.call_tool(tool, arguments)
                assert not found.is_error, (tool, found.content)
                assert word in json.dumps(found.structured_content)
            for tool, arguments, _ in REFUSED[:6]:
                found = await client.call_tool(tool, arguments)
                assert found.is_error
                assert "Traceback" not in str(found.content)

    anyio.run(talk)


@pytest.mark.thorough
def test_an_answer_that_takes_too_long_is_given_up_and_the_next_question_is_answered() -> None:
    pytest.importorskip("mcp")
    import anyio
    from mcp.server.mcpserver.exceptions import ToolError

    from amped.agents.server import Worker

    async def talk() -> None:
        worker = Worker(longest=0.05)
        with pytest.raises(ToolError, match=r"more than 0\.05 s"):
            await worker.ask("estimate", RUN)
        worker.longest = 60.0
        assert (await worker.ask("list", {"what": "formats"}))["names"]

    anyio.run(talk)


def test_standard_input_that_cannot_be_read_is_told(tmp_path: Path) -> None:
    pytest.importorskip("mcp", reason="needs the extra mcp")
    with (tmp_path / "written").open("w") as written:
        done = subprocess.run([sys.executable, "-m", "amped", "mcp"], stdin=written, capture_output=True, text=True, timeout=60)  # fmt: skip
    assert (done.returncode, done.stdout) == (2, "")
    assert "which cannot be read" in done.stderr
    assert "Traceback" not in done.stderr
