"""The chapter of the optimizer: products and messages of its own stand in its step."""

from pathlib import Path

import pytest

import amped

# A product of 1024 × 1024 × 1024 for each step, and a gather of 1 GB from all shards.
OWN = '''
from amped.quantity import records
from amped.theory.nouns.kernel_work import Traffic, operator
from amped.theory.nouns.records import Collective

SIDE = 1024.0


@records()
def optimizer_products():
    """Source: definition."""
    work = Traffic(2 * SIDE**3, 2 * 2 * SIDE**2, 2 * SIDE**2)
    return (operator("gram", "batched_contraction", "update", (SIDE, SIDE, SIDE, 1.0), work, count=3.0),)


@records()
def optimizer_collectives(shard_group):
    """Source: definition."""
    return (Collective("matrix_gradients", "all_gather", 1e9, shard_group[0], 1.0),)
'''


def test_an_optimizer_waits_for_its_own_products_and_messages(tmp_path: Path) -> None:
    mine = tmp_path / "own.py"
    mine.write_text(OWN, "utf-8")
    plain, e = amped.estimate("default", zero_stage=1), amped.estimate("default", zero_stage=1, formulas=mine)
    (product,) = [d for d in e.results.records("optimizer_durations") if d.name == "gram"]
    (message,) = e.results.records("optimizer_message_durations")
    assert plain.results.records("optimizer_message_durations") == ()
    more = 3 * float(product.time) + float(message.time)
    assert e["optimizer_time"] == pytest.approx(plain["optimizer_time"] + more, rel=1e-12)
    assert e["step_time"] == pytest.approx(plain["step_time"] + more, rel=1e-9)
    assert min(float(product.time), float(message.time)) > 0


def test_lamb_reads_weights_and_updates_for_their_norms_and_once_more_to_scale() -> None:
    """Five values of full precision for each parameter (arXiv 1904.00962, algorithm 2); what it keeps is what Adam keeps."""
    adam, lamb = (amped.estimate("default", optimizer=name) for name in ("adam", "lamb"))
    bytes_ = [sum(float(o.bytes * o.count) for o in e.results.records("optimizer_operators")) for e in (adam, lamb)]
    more = 5 * adam["optimizer_state_precision"] * adam["device_updated_parameters"]
    assert bytes_[1] - bytes_[0] == pytest.approx(more, rel=1e-9)
    assert lamb["optimizer_state_bytes"] == adam["optimizer_state_bytes"]
    assert lamb["optimizer_time"] > adam["optimizer_time"]
