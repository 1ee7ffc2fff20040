"""Options read plain values by themselves, as the library of typer would; the rest is typer's."""

import pytest
import typer

from amped.cli.app import app
from amped.cli.reading import UNREAD, _plain, read_plainly

COMMANDS = typer.main.get_command(app).commands
GIVEN = {
    int: ("4", "0", "007", "1_000", "-3", "x", "", "²", "9" * 30, 4),
    str: ("default", "", "4"),
    bool: (True, False),
    list[str]: (["a=1"], ("a", "b")),
}
PARAMETERS = [(verb, p) for verb in ("estimate", "explore", "why", "scenario-summary") for p in COMMANDS[verb].params]


def outcome(parameter: object, value: object) -> object:
    context = typer.Context(COMMANDS["estimate"])
    try:
        return parameter.process_value(context, value)  # type: ignore[attr-defined]
    except Exception as error:
        return type(error), str(error)


@pytest.mark.parametrize(("verb", "parameter"), PARAMETERS, ids=lambda each: getattr(each, "name", each))
def test_a_value_is_read_as_typer_reads_it(verb, parameter) -> None:
    if not hasattr(parameter, "type_descriptor"):
        pytest.skip("this typer checks types without a library")
    kind = parameter.type_descriptor.annotation
    values = (None, *GIVEN.get(kind, ("full", "default", "table", "nothing")))
    vars(parameter).pop("process_value", None)
    theirs = [outcome(parameter, value) for value in values]
    read_plainly([parameter])
    ours = [outcome(parameter, value) for value in values]
    assert [list(v) if isinstance(v, tuple) else v for v in ours] == [
        list(v) if isinstance(v, tuple) else v for v in theirs
    ]


def test_only_plain_values_are_read() -> None:
    assert _plain(int, "64") == 64
    assert [_plain(int, text) for text in ("x", "-1", "²", "1" * 10)] == [UNREAD] * 4
