"""Accelerator by accelerator: which parameters and experts each holds, and which tokens come to it. None is lost or twice."""

from collections import Counter
from itertools import product

import pytest

from tests.helpers.round_machine import trained
from tests.theory.by_hand.test_layer import GPT
from tests.theory.by_hand.test_mixture import MIXTURE, TOKENS

STATES = {"optimizer_state_bytes": (1, 12), "gradient_bytes": (2, 4), "weight_bytes": (3, 2)}
PARAMETERS = 4 * 800 + 16  # four layers and a final norm


@pytest.mark.parametrize("stage", [0, 1, 2, 3])
@pytest.mark.parametrize(("data", "tensor", "shards"), [(4, 1, 4), (4, 2, 4), (8, 2, 4), (2, 2, 2), (8, 1, 2)])
def test_states_of_all_accelerators_are_all_states_as_often_as_there_are_copies(
    data: int, tensor: int, shards: int, stage: int
) -> None:
    """Parameter by parameter: its place among tensor shares, then among the replicas that share it out."""
    e = trained(GPT, layers=4, number_of_accelerators=data * tensor, tensor_parallel_degree=tensor, batch_size=data,
                zero_stage=stage, sharding_degree=shards)  # fmt: skip
    for name, (shared_from, width) in STATES.items():
        groups = shards if stage >= shared_from else 1
        held = {
            (replica, share): [
                p for p in range(PARAMETERS) if p % tensor == share and p // tensor % groups == replica % groups
            ]
            for replica, share in product(range(data), range(tensor))
        }
        copies = Counter(parameter for own in held.values() for parameter in own)
        assert set(copies.values()) == {data // groups}
        assert len(copies) == PARAMETERS
        assert {width * len(own) for own in held.values()} == {e[name]}


@pytest.mark.parametrize(
    ("accelerators", "degree", "experts", "chosen"), [(4, 4, 8, 2), (8, 4, 8, 4), (4, 2, 4, 1), (8, 8, 16, 2)]
)
def test_every_visit_of_a_token_is_computed_by_one_accelerator(
    accelerators: int, degree: int, experts: int, chosen: int
) -> None:
    """Tokens take experts in turn. In each group of `degree` all rows are computed once, and as many come back as went."""
    e = trained(
        MIXTURE, number_of_accelerators=accelerators, batch_size=accelerators, expert_parallel_degree=degree,
        number_of_experts=experts, experts_per_token=chosen, inter_accelerator_bandwidth=1,
        number_of_accelerators_per_node=accelerators,
    )  # fmt: skip
    rows, sent = Counter[int](), Counter[tuple[int, int]]()
    for home, token, choice in product(range(degree), range(TOKENS), range(chosen)):
        owner = (token * chosen + choice) % experts // (experts // degree)
        rows[owner] += 1
        sent[home, owner] += 1
    assert rows.total() == degree * TOKENS * chosen
    assert {float(each) for each in rows.values()} == {e["dispatched_tokens"]}
    leaving = Counter(home for home, owner in sent.elements() if home != owner)
    coming = Counter(owner for home, owner in sent.elements() if home != owner)
    assert leaving == coming
    bytes_of_each = {4 * count * 8 * 2 for count in leaving.values()}  # width 8, 2 bytes, four exchanges at 1 B/s
    assert bytes_of_each == {e["exposed_expert_communication_time"]}


@pytest.mark.parametrize(("accelerators", "degree", "shares"), [(4, 4, 1), (8, 2, 1), (8, 2, 2), (8, 1, 2)])
@pytest.mark.parametrize("stage", [0, 1, 3])
def test_experts_of_all_accelerators_are_all_experts_as_often_as_there_are_copies(
    accelerators: int, degree: int, shares: int, stage: int
) -> None:
    """Parameter by parameter of 4 experts: its expert's group, its share of a matrix, its shard among those that hold it."""
    world = {"number_of_accelerators": accelerators, "tensor_parallel_degree": shares, "expert_tensor_parallel_degree": shares,
             "batch_size": accelerators // shares, "expert_parallel_degree": degree, "zero_stage": stage}  # fmt: skip
    e = trained(MIXTURE, world)
    same = accelerators // (degree * shares)
    shards = same if stage >= 1 else 1
    one, experts = 3 * 8 * 6, 4
    held: Counter[int] = Counter()
    for expert, parameter, copy in product(range(experts), range(one), range(same)):
        share, group = parameter % shares, expert * degree // experts
        if parameter // shares % shards == copy % shards:
            held[(copy * degree + group) * shares + share] += 1
    assert held.total() == experts * one * same // shards
    others = 3 * 8 + 8 * experts  # norms and router, cut and shared out like a dense layer
    cut = others / shares / (accelerators // shares if stage >= 1 else 1)
    assert [12 * (own + cut) for own in held.values()] == pytest.approx([e["optimizer_state_bytes"]] * accelerators)
