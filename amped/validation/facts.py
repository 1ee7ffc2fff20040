"""What a run may have done that amped has no parameter for.

A row lists it under `not_modeled`, so that nothing is lost.
"""

from __future__ import annotations

from amped.base.files import shipped_json

# Each fact, and what its value means.
FACTS: dict[str, str] = shipped_json("validation", "facts.json")
# A run with one of these is another kind of work, so that no prediction is made.
ESSENTIAL = ("adapters", "quantization")
