"""Mixtures of experts in the operator model: against a slow twin, and what must hold whatever the numbers are."""

from math import fsum

import pytest

import amped
from tests.helpers.twins.experts import mixture, mixture_stash, visits_of_busiest
from tests.helpers.twins.operators import attention, phase_seconds
from tests.theory.twins.test_operators import CHOICES, LEAVES, leaf

MORE_LEAVES = ("number_of_experts", "experts_per_token", "expert_feedforward_dimension", "expert_parallel_degree",
               "expert_tensor_parallel_degree", "expert_imbalance_factor", "expert_capacity_factor",
               "grouped_gemm_efficiency")  # fmt: skip
CONFIGURATIONS = {
    "as_shipped": {},
    "shares_of_an_expert": {"expert_tensor_parallel_degree": 2, "expert_parallel_degree": 4},
    "all_experts_on_each": {"expert_parallel_degree": 1, "tensor_parallel_degree": 1},
    "busiest_experts": {"expert_imbalance_factor": 1.4},
    "places_nobody_takes": {"expert_capacity_factor": 1.25},
    "tokens_dropped": {"expert_capacity_factor": 0.8},
    "one_visit": {"experts_per_token": 1, "sequence_parallel": False},
    "a_sequence_in_shares": {"context_parallel_degree": 2, "context_parallel_kind": "all_gather"},
}
every_configuration = pytest.mark.parametrize("name", CONFIGURATIONS)


def mixtral(**overrides):
    return amped.estimate("mixtral-8x7b", **overrides)


def leaves(e):
    p = {name: leaf(e, name) for name in (*LEAVES, *MORE_LEAVES)} | {name: e.choices[name] for name in CHOICES}
    return p | {"matrix_peak_flop_rate": e["bf16_peak_flop_rate"]}


@every_configuration
def test_twin_agrees_on_the_kernels_of_a_layer(name):
    e = mixtral(**CONFIGURATIONS[name])
    p = leaves(e)
    kernels = attention(p) + mixture(p)
    if e["context_parallel_degree"] == 1:  # the twin's attention has whole sequences
        for phase in ("forward", "input_gradient", "weight_gradient"):
            assert e[f"{phase}_time_per_layer"] == pytest.approx(phase_seconds(p, kernels, phase), rel=1e-9)
    ours = fsum(d.time * d.count for d in e.results.records("layer_durations") if d.name.startswith("expert"))
    # The router's names have no "experts" in the twin, its permutations no prefix.
    named = ("expert", "permutation", "sorting", "activation")
    assert ours == pytest.approx(fsum(k.seconds for k in kernels if k.name.startswith(named)), rel=1e-9)


@every_configuration
def test_twin_agrees_on_what_a_mixture_keeps(name):
    e = mixtral(**CONFIGURATIONS[name])
    kept = fsum(o.stash for o in e.results.records("expert_operators") if o.phase == "forward" and o.count > 0)
    assert kept == pytest.approx(mixture_stash(leaves(e)), rel=1e-9)


@every_configuration
def test_every_visit_is_computed_somewhere(name):
    """Rows of all accelerators of an expert group, by shares of an expert, are the visits of their tokens."""
    e = mixtral(**CONFIGURATIONS[name])
    up = next(g for g in e.results.records("expert_gemms") if g.name == "experts_up")
    assert up.m * up.batch == pytest.approx(visits_of_busiest(leaves(e)), rel=1e-12)
    group = e["expert_parallel_degree"] * e["expert_tensor_parallel_degree"]
    rows = up.m * up.batch * group / e["expert_tensor_parallel_degree"]
    assert rows == pytest.approx(
        e["routed_tokens"] * group * e["experts_per_token"] * e["expert_load_factor"], rel=1e-12
    )


# --- what must hold ---------------------------------------------------------------------------------------------------


def test_the_busiest_accelerator_is_waited_for():
    fair, unfair = mixtral(), mixtral(expert_imbalance_factor=1.5)
    assert unfair["step_time"] > fair["step_time"]
    assert unfair["activation_bytes"] > fair["activation_bytes"]
    assert unfair["exposed_expert_communication_time"] > fair["exposed_expert_communication_time"]
    # Useful work is the same: nobody needs what idle experts could have done.
    assert unfair["model_flops_per_accelerator"] == pytest.approx(fair["model_flops_per_accelerator"], rel=1e-12)


def test_places_that_nobody_takes_are_no_useful_work():
    dropless, padded = mixtral(), mixtral(expert_capacity_factor=1.25)
    assert padded["step_time"] > dropless["step_time"]
    assert padded["model_flops_per_accelerator"] == pytest.approx(dropless["model_flops_per_accelerator"], rel=1e-12)
    # Capacity caps what imbalance brings.
    assert mixtral(expert_capacity_factor=1.25, expert_imbalance_factor=3)["step_time"] == padded["step_time"]


def test_shares_of_an_expert_are_gathered_and_scattered():
    e = mixtral(expert_tensor_parallel_degree=2, expert_parallel_degree=4)
    shares = [c for c in e.results.records("expert_tensor_collectives") if c.name == "expert_tensor"]
    assert {(c.kind, c.intra * c.inter) for c in shares} == {("all_gather", 2), ("reduce_scatter", 2)}
    visits = e["routed_tokens"] * 2 * e["dimensionality"] * e["activation_precision"]
    assert {c.volume for c in shares} == {2 * visits}


def test_tokens_stay_where_their_sequence_is():
    """A mixture does not gather the sequence as a dense network does; shared experts do."""

    def gathers(e):
        return [c.count for c in e.results.records("tensor_collectives") if c.name == "feedforward_input"]

    assert gathers(mixtral()) == [0]
    assert gathers(mixtral(number_of_shared_experts=1)) == [1]
    assert gathers(mixtral(number_of_MoE_layers=8)) == [24 / 32]


def test_experts_of_one_node_leave_the_network_alone():
    inside, across = mixtral(expert_parallel_degree=8), mixtral(expert_parallel_degree=8, scale_up_domain_size=4)
    dispatch = [e.results.records("expert_collectives")[0] for e in (inside, across)]
    assert [(c.intra, c.inter) for c in dispatch] == [(8, 1), (4, 2)]
    assert across["exposed_expert_communication_time"] > inside["exposed_expert_communication_time"]


def test_gradients_of_experts_are_added_up_among_those_that_have_them():
    e = mixtral()
    (gradients,) = [
        c for c in e.results.records("expert_sharding_collectives") if c.count > 0 and "weights" not in c.name
    ]
    # 32 accelerators a stage, 8 of which hold all experts: 4 hold the same.
    assert gradients.intra * gradients.inter == 4
    held = 32 / 4 * e["number_of_experts"] * e["expert_parameters"] / 8
    assert e["expert_parameters_per_accelerator"] == pytest.approx(held, rel=1e-12)


def test_a_grouped_product_is_as_fast_as_its_coefficient():
    slow, fast = (
        mixtral(grouped_gemm_efficiency=0.5, kernel_overhead_time=0),
        mixtral(grouped_gemm_efficiency=1, kernel_overhead_time=0),
    )
    times = [{d.name: d.time for d in e.results.records("layer_durations")} for e in (slow, fast)]
    assert times[0]["experts_up"] == pytest.approx(2 * times[1]["experts_up"], rel=1e-9)
    assert times[0]["query_key_value"] == times[1]["query_key_value"]
