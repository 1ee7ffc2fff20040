"""`amped app`: a page in the browser whose numbers follow its sliders."""

from __future__ import annotations

import typer

from amped.cli import options


@options.bundled(given=options.changes)
def app(given: dict[str, object], port: int = 0, lookup_tables: options.Folders = None) -> None:
    """Serve a page for this machine's browser: its numbers, memory and timeline follow its sliders.

    It prints the address to open, and runs until Ctrl-C. Options say what the page shows first. Only this machine can
    open it, and only with the token in the address; docs/app.md says how safe it is.

    Example: amped app --model "Llama 3 70B" --system "DGX H100" --gpus 64

    Options:
        --port N 0..65535: 0: any that is free.
    """
    from amped.base.extras import from_extra

    for module in ("starlette", "uvicorn", "jinja2"):
        from_extra(module, "app", "`amped app`")
    from amped.web.running import run
    from amped.web.state import state_of

    first = state_of({name: _text(value) for name, value in given.items()})
    run(port, first, lookup_tables, typer.echo)


def _text(value: object) -> str:
    """A value as text in an address; true and false are in small letters."""
    return str(value).lower() if isinstance(value, bool) else str(value)
