"""`amped whatif`: a configuration beside itself, changed."""

from __future__ import annotations

import functools
from typing import Any

from amped.cli import options

Changed = tuple[options.Asking, dict[str, object]]


@functools.wraps(options.asked)
def read(**given: Any) -> Changed:
    """The question without the values of --set, and these values."""
    return options.asked(**given | {"settings": None}), options.overrides(given["settings"] or [])


@options.bundled(asked=read)
def whatif(asked: Changed, every: bool = False, as_json: bool = False) -> None:
    """Show what a change does: one configuration beside itself, with the values of --set.

    Everything but the change stays as it is, also what amped chose.

    Example: amped whatif --model "Llama 3 70B" --system "DGX H100" --gpus 64 --set matrix_precision=fp8

    Options:
        every --all: Show all results.
    """
    from amped.library.answers import changed

    found = changed(*asked, shows_all=every)
    if as_json:
        options.show_json(found.to_dict())
    else:
        options.show(found)
