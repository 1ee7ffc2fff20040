"""Which formula gives a degree: placement in the nodes, parts and wholes, micro-batches, the machine."""

import pytest

from amped.base.errors import MappingError
from tests.helpers.resolver import ALL_OF_IT, degrees, mapped

FAST = {"inter_accelerator_bandwidth": "300 GB/s", "gradient_bucket_bytes": "10 TB"}


def test_whole_degrees_fill_the_node_in_order() -> None:
    estimate = mapped(tensor_parallel_degree=4, pipeline_parallel_degree=2, **ALL_OF_IT)
    assert degrees(estimate, "tensor") == (4, 4, 1)
    assert degrees(estimate, "data") == (8, 2, 4)  # two places were left
    assert degrees(estimate, "pipeline") == (2, 1, 2)
    assert degrees(estimate, "context") == (1, 1, 1)


def test_a_degree_takes_its_largest_divisor_that_is_at_most_the_places_left() -> None:
    estimate = mapped(tensor_parallel_degree=2, data_parallel_degree=2, pipeline_parallel_degree=16)
    assert degrees(estimate, "data") == (2, 2, 1)
    assert degrees(estimate, "pipeline") == (16, 2, 8)  # 8 / 2 / 2 places
    wide = mapped(tensor_parallel_degree=32, number_of_accelerators=32)
    assert degrees(wide, "tensor") == (32, 8, 4)


def test_a_degree_that_shares_no_divisor_with_the_domain_leaves_places_idle() -> None:
    """Six of the twelve are the largest divisor that fits in 8 places: 2 are left, too few for another six."""
    estimate = mapped(data_parallel_degree=12, batch_size=252, microbatch_size=1, **FAST)
    assert degrees(estimate, "data") == (12, 6, 2)
    assert (estimate["number_of_used_fast_domain_places"], estimate["scale_up_domain_size"]) == (6, 8)
    both = mapped(data_parallel_degree=3, pipeline_parallel_degree=8, batch_size=255, microbatch_size=1, **FAST)
    assert (degrees(both, "data"), degrees(both, "pipeline")) == ((3, 3, 1), (8, 2, 4))  # floor(8 / 3) places


def test_a_run_of_several_domains_uses_what_launchers_give_it_and_one_that_fits_uses_all() -> None:
    rack = {"scale_up_domain_size": 72, "launched_domain_size": 64, "batch_size": 288, "microbatch_size": 1} | FAST
    assert degrees(mapped(number_of_accelerators=144, **rack), "data") == (144, 48, 3)  # the largest up to 64
    assert degrees(mapped(number_of_accelerators=72, **rack), "data") == (72, 72, 1)
    assert degrees(mapped(number_of_accelerators=144, **rack | {"launched_domain_size": 72}), "data") == (144, 72, 2)


def test_fewer_places_are_filled_where_that_is_faster() -> None:
    """Three places: matrices would go in threes, and replicas no longer lie in pairs; gradients alone are sent."""
    slow = {"bandwidth_per_network_card": "1 GB/s", "inter_accelerator_bandwidth": "100 GB/s", "batch_size": 4,
            "microbatch_size": 2, "zero_stage": 3, "context": 64, "scale_up_domain_size": 3}  # fmt: skip
    wide = {"tensor_parallel_degree": 3, "data_parallel_degree": 2, "attention_heads": 48, "dimensionality": 6144}
    chosen = mapped(**wide, **slow)
    filled = mapped(**wide, **slow, filled_domain_size=3)
    assert (degrees(chosen, "tensor"), degrees(chosen, "data")) == ((3, 1, 3), (2, 2, 1))
    assert (degrees(filled, "tensor"), degrees(filled, "data")) == ((3, 3, 1), (2, 1, 2))
    assert chosen["filled_domain_size"] == 2
    assert chosen["step_time"] < filled["step_time"]


def test_the_other_placement_order_gives_the_pipeline_its_place_before_the_replicas() -> None:
    wanted = {"tensor_parallel_degree": 2, "pipeline_parallel_degree": 4, **ALL_OF_IT}
    data_first = mapped(**wanted, placement_order="tensor_context_data_pipeline")
    pipeline_first = mapped(**wanted, placement_order="tensor_context_pipeline_data")
    assert (degrees(data_first, "data"), degrees(data_first, "pipeline")) == ((8, 4, 2), (4, 1, 4))
    assert (degrees(pipeline_first, "data"), degrees(pipeline_first, "pipeline")) == ((8, 1, 8), (4, 4, 1))


def test_context_parallelism_is_placed_between_tensor_and_data() -> None:
    estimate = mapped(tensor_parallel_degree=2, context_parallel_degree=8, **ALL_OF_IT)
    assert degrees(estimate, "context") == (8, 4, 2)
    assert degrees(estimate, "data") == (4, 1, 4)


def test_the_expert_group_lies_inside_the_replicas() -> None:
    experts = {"number_of_experts": 16, "experts_per_token": 2}  # each shared over as many as the dense layers
    estimate = mapped(tensor_parallel_degree=2, expert_parallel_degree=8, **experts, **ALL_OF_IT)
    assert degrees(estimate, "data") == (32, 4, 8)
    assert degrees(estimate, "expert") == (8, 4, 2)


def test_replicas_that_share_out_experts_lie_together_before_others_do() -> None:
    """48 of 96 replicas would fit in 64 places, with 16 of 32 shares of the experts; 32 hold all shares."""
    experts = {"number_of_experts": 32, "experts_per_token": 2, "expert_parallel_degree": 32, "batch_size": 96} | FAST
    estimate = mapped(**experts, number_of_accelerators=96, scale_up_domain_size=64, microbatch_size=1)
    assert (degrees(estimate, "data"), degrees(estimate, "expert")) == ((96, 32, 3), (32, 32, 1))


def test_as_many_share_an_expert_as_divide_unless_it_is_given() -> None:
    """Eight share the matrices of attention; of 64 accelerators 16 experts' shares leave four for each expert."""
    experts = {"number_of_experts": 16, "experts_per_token": 2, "expert_parallel_degree": 16}
    estimate = mapped(tensor_parallel_degree=8, **experts, **ALL_OF_IT)
    assert estimate["expert_tensor_parallel_degree"] == 4
    with pytest.raises(MappingError, match="expert_groups_divide_the_replicas"):
        mapped(tensor_parallel_degree=8, expert_tensor_parallel_degree=8, **experts, **ALL_OF_IT)
    narrow = mapped(tensor_parallel_degree=8, expert_feedforward_dimension=1026, **experts | ALL_OF_IT)
    assert narrow["expert_tensor_parallel_degree"] == 2  # 1026 = 2 x 513


def test_a_fast_domain_larger_than_a_node_is_what_intra_means() -> None:
    estimate = mapped(tensor_parallel_degree=16, scale_up_domain_size=32, **ALL_OF_IT)
    assert degrees(estimate, "tensor") == (16, 16, 1)
    assert degrees(estimate, "data") == (4, 2, 2)


@pytest.mark.parametrize("kind", ["tensor", "context", "data", "pipeline"])
def test_both_parts_give_the_whole(kind: str) -> None:
    parts = {f"intra_node_{kind}_parallel_degree": 2, f"inter_node_{kind}_parallel_degree": 4}
    assert degrees(mapped(**parts), kind) == (8, 2, 4)


@pytest.mark.parametrize("kind", ["tensor", "context", "data", "pipeline"])
def test_one_part_alone_leaves_the_other_one(kind: str) -> None:
    assert degrees(mapped(**{f"intra_node_{kind}_parallel_degree": 4}), kind) == (4, 4, 1)
    assert degrees(mapped(**{f"inter_node_{kind}_parallel_degree": 4}), kind) == (4, 1, 4)


@pytest.mark.parametrize("kind", ["tensor", "context", "data", "pipeline"])
def test_a_whole_and_one_part_give_the_other_part(kind: str) -> None:
    whole = {f"{kind}_parallel_degree": 16}
    assert degrees(mapped(**whole, **{f"intra_node_{kind}_parallel_degree": 4}), kind) == (16, 4, 4)
    assert degrees(mapped(**whole, **{f"inter_node_{kind}_parallel_degree": 8}), kind) == (16, 2, 8)


@pytest.mark.parametrize("kind", ["tensor", "context", "data", "pipeline"])
def test_a_whole_that_differs_from_its_parts_is_refused_with_what_would_do(kind: str) -> None:
    parts = {f"intra_node_{kind}_parallel_degree": 2, f"inter_node_{kind}_parallel_degree": 2}
    assert degrees(mapped(**parts, **{f"{kind}_parallel_degree": 4}), kind) == (4, 2, 2)
    with pytest.raises(MappingError, match=rf"(?s){kind}_parallel_degree = 8.*nearest {kind}_parallel_degree: 4"):
        mapped(**parts, **{f"{kind}_parallel_degree": 8})


def test_a_part_that_does_not_divide_its_whole_is_refused() -> None:
    with pytest.raises(MappingError):
        mapped(tensor_parallel_degree=8, intra_node_tensor_parallel_degree=3, inter_node_tensor_parallel_degree=2)


def test_micro_batches_follow_from_their_size() -> None:
    estimate = mapped(pipeline_parallel_degree=4, microbatch_size=2, **ALL_OF_IT)
    assert estimate["minibatch_size"] == 256 / 16
    assert (estimate["microbatch_size"], estimate["number_of_microbatches_per_minibatch"]) == (2, 8)


def test_the_size_follows_from_the_number_of_micro_batches() -> None:
    estimate = mapped(pipeline_parallel_degree=4, number_of_microbatches_per_minibatch=4, **ALL_OF_IT)
    assert (estimate["microbatch_size"], estimate["number_of_microbatches_per_minibatch"]) == (4, 4)


def test_without_either_there_are_as_many_micro_batches_as_pipeline_stages() -> None:
    estimate = mapped(pipeline_parallel_degree=8, **ALL_OF_IT)
    assert (estimate["microbatch_size"], estimate["number_of_microbatches_per_minibatch"]) == (4, 8)


def test_a_size_and_a_number_of_micro_batches_must_agree() -> None:
    agreed = mapped(microbatch_size=2, number_of_microbatches_per_minibatch=2, **ALL_OF_IT)
    assert agreed["number_of_microbatches_per_minibatch"] == 2
    with pytest.raises(MappingError, match="the_minibatch_divides_by_the_microbatch"):
        mapped(microbatch_size=2, number_of_microbatches_per_minibatch=4, **ALL_OF_IT)


def test_the_machine_is_its_accelerators() -> None:
    estimate = mapped(number_of_accelerators=48, batch_size=192, tensor_parallel_degree=2)
    assert (estimate["number_of_accelerators"], estimate["number_of_nodes"]) == (48, 6)
    assert estimate["data_parallel_degree"] == 24


def test_the_machine_is_its_nodes() -> None:
    estimate = mapped(number_of_nodes=4, tensor_parallel_degree=2)
    assert (estimate["number_of_accelerators"], estimate["number_of_nodes"]) == (32, 4)
    assert estimate["data_parallel_degree"] == 16


def test_the_machine_is_what_the_degrees_multiply_to() -> None:
    estimate = mapped(tensor_parallel_degree=4, pipeline_parallel_degree=2, data_parallel_degree=16)
    assert (estimate["number_of_accelerators"], estimate["number_of_nodes"]) == (128, 16)
    without_replicas = mapped(tensor_parallel_degree=4, pipeline_parallel_degree=2)
    assert (without_replicas["number_of_accelerators"], without_replicas["data_parallel_degree"]) == (8, 1)


def test_part_of_a_cluster_may_be_used_but_no_more_than_there_is() -> None:
    assert mapped(number_of_accelerators=16, number_of_nodes=4)["data_parallel_degree"] == 16
    with pytest.raises(MappingError, match="the_cluster_has_the_accelerators"):
        mapped(number_of_accelerators=64, number_of_nodes=4)


def test_degrees_that_do_not_multiply_to_the_machine_are_refused_with_what_would_do() -> None:
    with pytest.raises(MappingError, match=r"nearest tensor_parallel_degree: 4 or 8"):
        mapped(tensor_parallel_degree=6, **ALL_OF_IT)
    with pytest.raises(MappingError, match="degrees_multiply_to_the_number_of_accelerators"):
        mapped(tensor_parallel_degree=4, data_parallel_degree=4, **ALL_OF_IT)
