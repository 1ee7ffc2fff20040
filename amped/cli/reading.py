"""Reads plain values of options by itself; the library by which typer checks types takes a fifth of a short command."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any, Literal, get_args, get_origin

UNREAD = object()
# A whole number of up to nine digits, maybe in groups of three.
WHOLE = re.compile(r"[0-9]{1,9}|[0-9]{1,3}(,[0-9]{3}){1,2}")


def read_plainly(parameters: list[Any]) -> list[Any]:
    """Lets options and arguments read missing values, texts, whole numbers and words by themselves.

    All other values, and those that are wrong, go the way of typer, which has the words for them.
    """
    for parameter in parameters:
        is_left = "process_value" in vars(parameter) or not hasattr(parameter, "type_descriptor")
        if not is_left:  # a typer without descriptors checks types without a library
            parameter.process_value = _reader(parameter, parameter.process_value)
    return parameters


def _reader(parameter: Any, checked: Callable[[Any, Any], Any]) -> Callable[[Any, Any], Any]:
    """A function that reads the value of an option or argument, with `checked` (that of typer) for all harder cases."""
    info, kind = parameter.type_descriptor.parameter_info, parameter.type_descriptor.annotation
    has_checks = info.min is not None or info.max is not None or info.parser is not None
    is_multiple = parameter.nargs == -1 or getattr(parameter, "multiple", False)

    def process_value(context: Any, value: Any) -> Any:
        result = (() if is_multiple else None) if value is None else UNREAD if has_checks else _plain(kind, value)
        if result is UNREAD or (parameter.required and not result):
            return checked(context, value)
        return result if parameter.callback is None else parameter.callback(context, parameter, result)

    return process_value


def _plain(kind: Any, value: Any) -> Any:
    """A value converted to its type, or `UNREAD` if only typer can convert or refuse the value."""
    if kind in (str, int, float) and type(value) is kind:
        return value
    if kind is int and isinstance(value, str) and WHOLE.fullmatch(value):
        return int(value.replace(",", ""))
    if get_origin(kind) is Literal and value in get_args(kind):
        return value
    if kind == list[str] and isinstance(value, list | tuple) and all(isinstance(item, str) for item in value):
        return list(value)
    return UNREAD
