"""A tower on paper: an encoder of images in front of the GPT of `test_layer.py`, its projector, and what is trained of it.

An image has 4 patches of 6 values. The tower has one layer like that of the GPT, without a mask and in one kernel. Two of
its tokens are joined to one: a projector of two matrices makes 2 of the GPT's 4 tokens.
"""

import pytest

import amped
from tests.helpers.layers import computed
from tests.helpers.round_machine import ONE_BYTE_A_SECOND, ONE_PRODUCT_A_SECOND, trained
from tests.theory.by_hand.test_layer import GPT

TOWER: dict[str, object] = {
    "tower_layers": 1, "tower_dimensionality": 8, "tower_attention_heads": 2, "tower_patch_values": 6, "tower_tokens": 4,
    "tower_tokens_handed_on": 2, "tower_projector_input_width": 16, "tower_position_table": 4, "tower_biased_projections": 0,
    "tower_attention_output_bias": False, "tower_mlp_bias": False, "tower_outer_norms": 1,
}  # fmt: skip
ENCODER = GPT | {"causal": False, "flash_attention": True}
SEEING = ENCODER | TOWER
# Products: of patches, of the layer (as in `test_layer.py`), of both matrices of the projector.
PATCHES, LAYER, CORE, PROJECTOR_IN, PROJECTOR_OUT = 4 * 6 * 8, 3072, 256, 2 * 16 * 8, 2 * 8 * 8
PROJECTOR = PROJECTOR_IN + PROJECTOR_OUT


def times(e: amped.Estimate) -> tuple[float, float]:
    return e["tower_forward_time"], e["tower_backward_time"]


def test_its_parameters() -> None:
    """Layer 4·8·8 + 2·8·32 weights and two norms of 2·8: 800. Patches (6 + 1)·8, positions 4·8, a norm of 16: 104.

    Projector (16 + 1)·8 + (8 + 1)·8 = 208.
    """
    e = trained(SEEING)
    assert (e["tower_parameters"], e["tower_projector_parameters"]) == (800 + 104, 208)
    assert e["number_of_parameters"] - trained(ENCODER)["number_of_parameters"] == 904 + 208
    # Biases of queries, keys and values 24, of the output 8, of the network 32 + 8.
    biased = trained(
        SEEING, tower_biased_projections=3, tower_attention_output_bias=True, tower_mlp_bias=True, tower_gated_mlp=True
    )
    assert biased["tower_parameters"] == 904 + 24 + 8 + (2 * 32 + 8) + 8 * 32


def test_its_products() -> None:
    """Backward each product runs twice, that of patches once; the fused core takes 2.5 times as many (five for two)."""
    forward, backward = times(trained(SEEING, ONE_PRODUCT_A_SECOND))
    assert forward == PATCHES + LAYER + CORE + PROJECTOR
    assert backward == PATCHES + 2 * LAYER + 2.5 * CORE + 2 * PROJECTOR


def test_a_frozen_tower_has_no_backward_pass_and_keeps_nothing() -> None:
    frozen, whole = trained(SEEING, ONE_PRODUCT_A_SECOND, tower_training="frozen"), trained(SEEING)
    assert times(frozen) == (PATCHES + LAYER + CORE + PROJECTOR, 0)
    assert frozen["embedding_activation_bytes"] == 0
    assert frozen["weight_bytes"] == whole["weight_bytes"]
    # A parameter that is trained has a gradient of 4 bytes and three states of 4.
    assert whole["gradient_bytes"] - frozen["gradient_bytes"] == 4 * (904 + 208)
    assert whole["optimizer_state_bytes"] - frozen["optimizer_state_bytes"] == 12 * (904 + 208)


def test_a_projector_alone_learns_without_the_gradient_of_its_input() -> None:
    e = trained(SEEING, ONE_PRODUCT_A_SECOND, tower_training="projector")
    assert times(e) == (PATCHES + LAYER + CORE + PROJECTOR, PROJECTOR_IN + 2 * PROJECTOR_OUT)
    # It keeps what its matrices multiply, 2·16 and 2·8 entries of 2 bytes, and the input of its function, 2·8.
    assert e["embedding_activation_bytes"] == 2 * (32 + 16 + 16)
    assert e["trained_parameters"] == e["number_of_parameters"] - 904


def test_what_it_moves_beside_a_layer_like_those_of_the_network() -> None:
    """Patches 4·6 + 6·8 + 4·8 entries of 2 bytes; backward 4·6 + 4·8, and a gradient of 6·8·4 bytes read and written.

    Projector: 2·16 + 16·8 + 2·8 and 2·8 + 8·8 + 2·8 entries, and as many for the gradients of inputs; a function of 2·8 reads
    and writes (backward reads two); gradients of weights 2·16 + 2·8 and 2·8 + 2·8 entries, and 2·4 bytes for each weight.
    """
    e = trained(SEEING, ONE_BYTE_A_SECOND)
    layer = computed(trained(ENCODER, ONE_BYTE_A_SECOND))
    sides, function = 2 * (32 + 128 + 16) + 2 * (16 + 64 + 16), 2 * 16
    forward, backward = times(e)
    assert forward == layer.forward + 2 * (24 + 48 + 32) + sides + 2 * function
    patches, matrices = 2 * (24 + 32) + 8 * 48, 2 * (32 + 16) + 8 * 128 + 2 * (16 + 16) + 8 * 64
    assert backward == layer.input_gradient + layer.weight_gradient + patches + sides + matrices + 3 * function


def test_it_runs_before_the_first_layer_of_the_first_stage_for_every_image() -> None:
    bare, seeing = trained(ENCODER, ONE_PRODUCT_A_SECOND), trained(SEEING, ONE_PRODUCT_A_SECOND)
    assert seeing["step_time"] - bare["step_time"] == sum(times(seeing))
    two = trained(SEEING, ONE_PRODUCT_A_SECOND, images_per_sequence=2)
    assert sum(times(two)) == 2 * sum(times(seeing))
    staged = trained(SEEING, ONE_PRODUCT_A_SECOND, layers=2, number_of_accelerators=2, pipeline_parallel_degree=2)
    assert staged["step_time"] == trained(ENCODER, ONE_PRODUCT_A_SECOND, layers=2)["step_time"] + sum(times(seeing))


def test_layers_that_run_again_keep_their_input() -> None:
    """Kept are the patches (4·6 entries), the input of the layer (4·8) and what the projector keeps (64 entries)."""
    e = trained(SEEING, ONE_PRODUCT_A_SECOND, tower_recomputation=1)
    # The forward pass of the core in the backward pass has the products of a forward pass.
    assert times(e)[1] == PATCHES + 3 * LAYER + 3.5 * CORE + 2 * PROJECTOR
    assert e["embedding_activation_bytes"] == 2 * (24 + 32 + 64)


@pytest.mark.parametrize(("training", "products"), [
    ("trained", 2 * PATCHES + 3 * (LAYER + CORE + PROJECTOR)),
    ("projector", PATCHES + LAYER + CORE + 2 * PROJECTOR_IN + 3 * PROJECTOR_OUT),
    ("frozen", PATCHES + LAYER + CORE + PROJECTOR),
])  # fmt: skip
def test_the_flops_that_count(training: str, products: float) -> None:
    e, bare = (trained(world, tower_training=training) for world in (SEEING, ENCODER))
    assert e["model_flops_per_accelerator"] - bare["model_flops_per_accelerator"] == 2 * products


def test_accelerators_of_a_tensor_parallel_group_repeat_it() -> None:
    one, two = trained(SEEING), trained(SEEING, tensor_parallel_degree=2, number_of_accelerators=2)
    assert two["tower_forward_time"] == one["tower_forward_time"]
    bare = trained(ENCODER, tensor_parallel_degree=2, number_of_accelerators=2)
    assert two["weight_bytes"] - bare["weight_bytes"] == 2 * (904 + 208)
    counted = one["model_flops_per_accelerator"] - trained(ENCODER)["model_flops_per_accelerator"]
    assert two["model_flops_per_accelerator"] - bare["model_flops_per_accelerator"] == counted / 2
    done = two["hardware_flops_per_accelerator"] - bare["hardware_flops_per_accelerator"]
    assert done == counted


def test_images_take_places_of_the_sequence() -> None:
    with pytest.raises(amped.AmpedError, match="images_per_sequence"):
        trained(SEEING, images_per_sequence=3)
