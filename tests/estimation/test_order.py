"""Which machine is the fastest or the cheapest: an order that the bands may turn is a tie."""

import math
from types import SimpleNamespace
from typing import Any

import pytest

from amped.estimation.order import memory_left, range_of, tied
from amped.tables.prices import Price


class Known(dict[str, float]):
    """An estimate of which the results, the error and the range of the price are known."""

    def __init__(self, error: float = 0.0, low: float = 1.0, high: float = 1.0, **results: float) -> None:
        super().__init__(results)
        self.error_band = SimpleNamespace(error_fraction=error)
        self.scenario: Any = SimpleNamespace(
            sources=SimpleNamespace(price=Price("a list", low=low, median=1, high=high))
        )


def test_a_difference_beyond_the_error_is_an_order_and_one_within_it_a_tie() -> None:
    slow, fast, near = Known(0.1, training_time=130), Known(0.1, training_time=100), Known(0.1, training_time=109)
    assert tied([slow, fast], "training_time") == [1]
    assert tied([slow, fast, near], "training_time") == [1, 2]


def test_the_larger_error_counts_and_an_unknown_one_sorts_nothing() -> None:
    fast = Known(0.1, training_time=100)
    assert tied([fast, Known(0.4, training_time=130)], "training_time") == [0, 1]
    assert tied([fast, Known(math.inf, training_time=1e9)], "training_time") == [0, 1]


def test_the_ends_of_prices_turn_costs_and_no_times() -> None:
    """100 USD may be 125 at the high price; 150 may be 120 at the low one."""
    cheap = Known(0.0, high=1.25, cost=100, training_time=1)
    dear = Known(0.0, low=0.8, cost=150, training_time=2)
    assert tied([dear, cheap], "cost") == [1, 0]
    assert tied([dear, cheap], "training_time") == [1]
    assert tied([Known(0.0, low=0.8, cost=160), cheap], "cost") == [1]


def test_a_cost_lies_between_the_low_price_of_a_fast_run_and_the_high_price_of_a_slow_one() -> None:
    cost = range_of(Known(0.25, low=0.8, high=1.5, cost=100), "cost")
    assert (cost.low, cost.likely, cost.high) == pytest.approx((64, 100, 187.5))


def test_memory_that_lacks_is_negative() -> None:
    assert memory_left(Known(memory_per_accelerator_bytes=60, available_memory_bytes=80)) == 0.25
    assert memory_left(Known(memory_per_accelerator_bytes=100, available_memory_bytes=80)) == -0.25
