"""Libraries that only some parts of amped need. Each comes with an extra, and is imported where it is used."""

from __future__ import annotations

import importlib
from typing import Any

from amped.base.errors import ConfigError


def from_extra(module: str, extra: str, user: str, instead: str = "") -> Any:
    """A module that comes with an extra of amped.

    Args:
        module: the full name of the module.
        extra: the extra of amped that installs it.
        user: what needs it, for the message.
        instead: what the user may do without it.

    Raises:
        ConfigError: if it is not installed or cannot be loaded, with the command that installs it.
    """
    try:
        return importlib.import_module(module)
    except ImportError as error:
        what = f"{user} needs {module}, which cannot be loaded: {error}"
        if isinstance(error, ModuleNotFoundError):
            what = f"{user} needs {error.name or module}, which is not installed"
        advice = ", or ".join(filter(None, (f"pip install 'amped[{extra}]'", instead)))
        raise ConfigError(what, advice) from None
