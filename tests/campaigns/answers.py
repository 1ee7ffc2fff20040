"""What is wrong with an answer of amped's: laws that a result breaks, and refusals that are none."""

import json
import math
from collections.abc import Callable, Iterator

from amped.base.errors import AmpedError
from amped.estimation.gate import HFU, MFU, ROUNDING, broken_laws, formulas_of_the_user, given_from_inside
from amped.estimation.parts import HIDDEN_PARTS, MEMORY_PARTS, STEP_PARTS
from amped.library import Estimate
from tests.campaigns.records import Seen

# Words of Python's exceptions, which tell a user nothing.
FOREIGN = (
    "Traceback", "NoneType", "unsupported operand", "list index", "not subscriptable", "could not convert", "object has no attribute", "KeyError",
    "TypeError", "ValueError", "AttributeError", "IndexError", "ZeroDivisionError", "OverflowError", "must be str, not", "unexpected keyword",
    "Errno", "codec can't", "cannot convert float", "invalid literal", "<class", "<function", "object at 0x",
)  # fmt: skip
LONGEST = 20_000


def wrong_estimate(found: Estimate) -> str:
    """What an estimate must not show: numbers that are none, or that break a law although nothing was given from inside."""
    shown = found.to_dict()
    none = [name for name, value in shown.items() if isinstance(value, float) and not math.isfinite(value)]
    if none:
        return f"not finite in {none[0]}: {shown[none[0]]}"
    json.dumps(shown)
    if given_from_inside(found.scenario, found.results) or formulas_of_the_user(found.scenario, found.results):
        return ""
    return next((f"breaks a law, {broken.partition(':')[0]}: {broken}" for broken in _broken(found)), "")


def _broken(found: Estimate) -> Iterator[str]:
    """The laws of the gate, and once more in this file's own words: what the gate forgets is noticed, too."""
    yield from broken_laws(found.results)
    step, memory = (found[name] for name in ("step_time", "memory_per_accelerator_bytes"))
    for whole, parts in ((step, STEP_PARTS), (memory, MEMORY_PARTS)):
        if min(found[name] for name in parts) < -ROUNDING * whole or not whole > 0:
            yield f"a part is negative: { ({name: found[name] for name in parts}) }"
        if not math.isclose(sum(found[name] for name in parts), whole, rel_tol=1e-9):
            yield f"parts do not sum up: { ({name: found[name] for name in parts}) }"
    if not 0 < found[MFU] <= found[HFU] * (1 + ROUNDING) <= (1 + ROUNDING) ** 2:
        yield f"utilization: {found[MFU]} and {found[HFU]}"
    if min(found[name] for name in HIDDEN_PARTS) < -ROUNDING * step:
        yield f"hidden below 0: { ({name: found[name] for name in HIDDEN_PARTS}) }"
    if not math.isclose(
        found["training_time"] * found["goodput_fraction"], step * found["number_of_steps"], rel_tol=1e-9
    ):
        yield f"a training is not its steps: {found['training_time']}, {found['number_of_steps']} steps of {step}"


def wrong_refusal(error: AmpedError) -> str:
    """What a refusal must not be: empty, endless, or in the words of an exception of Python's."""
    if not error.problems or not all(problem.what for problem in error.problems):
        return "refused without a word"
    return wrong_words(str(error))


def wrong_words(told: str) -> str:
    """What a message must not be."""
    if len(told) > LONGEST:
        return f"endless message: {len(told)} letters, {told[:100]}"
    if any(letter < " " and letter not in "\n\t" for letter in told):
        return f"control letters in a message: {told[:200]!r}"
    return next((f"words of an exception, {words}: {told[:300]}" for words in FOREIGN if words in told), "")


def seen_of_estimate(ask: Callable[[], Estimate]) -> Seen:
    """What an estimate led to."""
    try:
        return Seen(wrong_estimate(ask()))
    except AmpedError as error:
        return Seen(wrong_refusal(error), answered=0)
