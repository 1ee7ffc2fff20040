"""Context parallelism on paper: a sequence in two shares, whose keys and values go round, are gathered or exchanged.

The GPT of `test_layer.py` with 8 tokens, 4 on each of two accelerators: their keys and values have 2·4·8·2 = 128 bytes,
queries and output 64 each. A link of 1 B/s. Source: arXiv 2310.01889 (ring attention), section 3; arXiv 2407.21783,
section 3.3.2 (gathered); arXiv 2309.14509 (Ulysses), section 3.
"""

import pytest

from tests.helpers.round_machine import ONE_PRODUCT_A_SECOND, trained
from tests.theory.by_hand.test_layer import GPT

SHARED = GPT | {
    "context": 8, "context_parallel_degree": 2, "number_of_accelerators": 2, "inter_accelerator_bandwidth": "1 B/s",
    "zero_stage": 0, "data_parallel_degree": 1,
}  # fmt: skip


@pytest.mark.parametrize(("kind", "seconds", "buffers"), [
    # One block to the neighbor forward and one backward, where two steps bring its gradients home.
    ("ring", 128 + 128 + 2 * 128, 2 * 128),
    # Half of 256 bytes in each pass, and as much for the gradients.
    ("all_gather", 3 * 128, 256),
    # Half of queries, keys and values, and half of the output, in each pass.
    ("all_to_all", 2 * (96 + 32), 64 + 128 + 64),
])  # fmt: skip
def test_what_travels_and_what_holds_it(kind: str, seconds: int, buffers: int) -> None:
    e = trained(SHARED, context_parallel_kind=kind)
    assert e["exposed_context_communication_time"] == pytest.approx(seconds)
    assert e["context_buffer_bytes"] == buffers


def test_a_ring_hides_beside_the_blocks_that_are_attended_to_meanwhile() -> None:
    """One product a second: scores and values of a block are 2 heads · 4·4·4 · 2 = 256, backward 512. Two blocks.

    At 1 B/s, 128 s: forward it hides behind the first block. Backward keys and gradients, 256 s, hide behind the first
    block's 512; the last gradients, 128 s, have no block left.
    """
    e = trained(SHARED, ONE_PRODUCT_A_SECOND, context_parallel_kind="ring")
    assert (e["exposed_context_communication_time"], e["hidden_context_communication_time"]) == (128, 384)


def test_a_ring_that_is_slower_than_attention_is_waited_for() -> None:
    """At 0.25 B/s, 512 s: forward 256 of the first block hide, 256 are waited for.

    Backward 1024 of keys and gradients beside the first block's 512, and 512 home: 1024 are waited for.
    """
    e = trained(SHARED, ONE_PRODUCT_A_SECOND, context_parallel_kind="ring", inter_accelerator_bandwidth="0.25 B/s")
    assert (e["exposed_context_communication_time"], e["hidden_context_communication_time"]) == (256 + 1024, 256 + 512)


def test_where_nothing_is_asked_to_hide_nothing_does() -> None:
    e = trained(SHARED, ONE_PRODUCT_A_SECOND, context_parallel_kind="ring", overlap_context_communication=False)
    assert (e["exposed_context_communication_time"], e["hidden_context_communication_time"]) == (512, 0)
