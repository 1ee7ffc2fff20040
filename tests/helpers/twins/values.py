"""What the slow twins are told of a training: SI numbers, switches and choices by canonical name."""

from typing import Any

Values = dict[str, Any]
