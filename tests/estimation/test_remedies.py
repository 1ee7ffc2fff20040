"""What would make a configuration fit: what cannot hold one copy of all states is never laid out, and no remedy is lost by that."""

from typing import Any
from unittest import mock

import pytest

from amped.estimation import remedies
from amped.estimation.estimation import Estimation
from amped.library import estimate
from tests.helpers.laws import estimate_of, every_shape

# Questions that cannot fit, and some that one change or two make fit.
DEEPSEEK = {"model": "DeepSeek V3", "system": "DGX H100", "number_of_accelerators": 16}
# Who says that nothing is kept on the host is not given that.
LLAMA = {"model": "Llama 3 70B", "system": "DGX H100", "optimizer_offload": 0}
FULL: tuple[dict[str, Any], ...] = (
    {**DEEPSEEK, "tp": 2, "pp": 1, "mbs": 1},
    {**LLAMA, "number_of_accelerators": 8, "tp": 8, "zero": 0, "recompute": "none"},
    {**LLAMA, "number_of_accelerators": 16, "tp": 8, "zero": 0, "recompute": "none"},
    {**LLAMA, "number_of_accelerators": 64, "tp": 1, "pp": 1, "mbs": 4, "zero": 0},
    {**LLAMA, "number_of_accelerators": 32, "tp": 2, "pp": 2, "mbs": 2, "zero": 1},
    {
        "model": "Mixtral 8x7B",
        "system": "DGX H100",
        "number_of_accelerators": 16,
        "tp": 1,
        "ep": 2,
        "mbs": 8,
        "recompute": "none",
    },
)


def full(question: dict[str, Any]) -> Estimation:
    """The estimate of a question that does not fit."""
    found = estimate(**question)
    assert not found["fits_in_memory"]
    return found


def test_what_cannot_hold_one_copy_of_the_states_is_not_laid_out() -> None:
    found = full(FULL[0])
    with mock.patch.object(remedies, "laid_out", wraps=remedies.laid_out) as laid_out:
        assert "take more accelerators" in remedies.smallest_change(found)
    assert laid_out.call_count < 10


@pytest.mark.thorough
@pytest.mark.parametrize(
    "question", FULL, ids=lambda question: f"{question['model']} {question['number_of_accelerators']}"
)
def test_no_remedy_is_lost(question: dict[str, Any]) -> None:
    found = full(question)
    with mock.patch.object(remedies._Room, "may_hold", return_value=True):
        every = remedies.smallest_change(found)
    assert remedies.smallest_change(found) == every


@pytest.mark.thorough
@every_shape
def test_every_mapping_holds_one_copy_of_the_states(shape: str) -> None:
    found = estimate_of(shape)
    if "weight_bytes" in found:
        room = remedies._Room.of(found)
        kept = {name: 1 - share for name, share in room.offloaded.items()}
        least = kept["optimizer_offload"] * (room.optimizer + room.gradient) + kept["weight_offload"] * room.weight
        held = sum(found[f"{state}_bytes"] for state in ("weight", "gradient", "optimizer_state"))
        assert least <= held * (1 + 1e-9), shape
