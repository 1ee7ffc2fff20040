"""Tensor parallelism on paper: what two shares of a layer send, and what of it runs beside which product.

The GPT of `test_layer.py` on two accelerators of a node. A micro-batch between two blocks has 4·8·2 = 64 bytes: an all-reduce
of two passes on 64 bytes, a gather or a scatter 32 (arXiv 1909.08053, section 3; arXiv 2205.05198, section 4.2.2).
"""

from tests.helpers.layers import whole_bytes
from tests.helpers.round_machine import ONE_PRODUCT_A_SECOND, trained
from tests.theory.by_hand.test_layer import GPT

TWO = GPT | {"number_of_accelerators": 2, "tensor_parallel_degree": 2, "inter_accelerator_bandwidth": "1 B/s"}
SEQUENCE: dict[str, object] = {"sequence_parallel": True}
APART: dict[str, object] = {"overlap_tensor_communication": False}
EXPOSED, HIDDEN = "exposed_tensor_communication_time", "hidden_tensor_communication_time"


def times(*worlds: dict[str, object], **given: object) -> tuple[float, float]:
    """Seconds exposed and hidden; what hides beside computation of next to no time is next to nothing."""
    e = trained(TWO, *worlds, **given)
    return round(e[EXPOSED], 9), round(e[HIDDEN], 9)


def test_two_all_reduces_forward_and_two_backward() -> None:
    """Nothing is computed in no time, so nothing hides. Recomputing in full sends two more."""
    assert times() == (4 * 64, 0)
    assert times(activation_recomputation="full") == (6 * 64, 0)
    assert times(activation_recomputation="selective") == (4 * 64, 0)


def test_sequence_parallelism_sends_the_halves_and_gathers_inputs_once_more() -> None:
    """Forward two gathers and two scatters of 32 s; backward as many, and the two inputs again."""
    assert times(SEQUENCE) == (4 * 32 + 6 * 32, 0)
    assert times(SEQUENCE, activation_recomputation="full") == (14 * 32, 0)


def test_each_projection_may_gather_the_input_again() -> None:
    """Keys and values gather once more each, forward, and scatter the gradients; a gate would too (PyTorch, ColwiseParallel)."""
    assert times(SEQUENCE, each_projection_gathers=True) == (10 * 32 + 2 * 2 * 32, 0)
    assert times(SEQUENCE, each_projection_gathers=True, gated_mlp=True) == (10 * 32 + 2 * 3 * 32, 0)
    assert times(each_projection_gathers=True) == times()


# One product a second. Half of the layer's products on each share: weights 3072/2, attention's core 256/2 forward and twice
# that backward. So gradients of inputs take 1536 + 256, those of weights 1536.


def test_a_reduction_runs_beside_the_gradient_of_the_weight() -> None:
    """Both of 64 s fit into 1536 s (Megatron-LM, LinearWithGradAccumulationAndAsyncCommunication)."""
    assert times(ONE_PRODUCT_A_SECOND) == (2 * 64, 2 * 64)
    assert times(ONE_PRODUCT_A_SECOND, APART) == (4 * 64, 0)
    # A slow link: 1536 of 2 · 6400 s hide.
    assert times(ONE_PRODUCT_A_SECOND, inter_accelerator_bandwidth="0.01 B/s") == (4 * 6400 - 1536, 1536)


def test_sequence_parallelism_hides_its_gathers_where_overlap_is_on() -> None:
    """Inputs gathered again beside gradients of inputs; what was gathered is scattered beside gradients of weights.

    Gradients are gathered before a block's backward pass starts, and waited for.
    """
    assert times(ONE_PRODUCT_A_SECOND, SEQUENCE) == (4 * 32 + 2 * 32, 4 * 32)
    assert times(ONE_PRODUCT_A_SECOND, SEQUENCE, APART) == (10 * 32, 0)


def test_products_in_chunks_hide_all_but_the_first() -> None:
    """Two chunks: half of the forward's four, and of the gathers of gradients, beside products (arXiv 2305.06942)."""
    chunks = {"overlap_forward_tensor_communication": True}
    assert times(ONE_PRODUCT_A_SECOND, SEQUENCE, chunks) == (2 * 32 + 1 * 32, 2 * 32 + 5 * 32)


def test_software_may_hide_a_share_of_its_chunks() -> None:
    """A quarter of the halves of four messages forward, and of two gathers of gradients; the rest as without chunks."""
    chunks = {"overlap_forward_tensor_communication": True, "tensor_chunk_overlap_fraction": 0.25}
    hidden = 4 * 32 + (2 * 32 + 32) / 4
    assert times(ONE_PRODUCT_A_SECOND, SEQUENCE, chunks) == (10 * 32 - hidden, hidden)


def test_what_runs_beside_kernels_slows_them() -> None:
    """A quarter of what is hidden: forward in chunks, backward beside gradients."""
    asked = {"overlap_slowdown_fraction": 0.25}
    assert times(ONE_PRODUCT_A_SECOND, asked) == (2 * 64 + 0.25 * 2 * 64, 2 * 64)
    chunks = {"overlap_forward_tensor_communication": True}
    assert times(ONE_PRODUCT_A_SECOND, SEQUENCE, chunks, asked) == (3 * 32 + 0.25 * 7 * 32, 7 * 32)


def test_what_fits_into_waiting_for_the_host_slows_nothing() -> None:
    """Kernels of no time, and a host of 100 s forward, 50 of input gradients: so much of 128 s each way is not waited for.

    Recomputing in full: the host is waited for another 100 s backward, where now four are sent.
    """
    slow_host = {"host_time_per_layer": 100, "overlap_tensor_communication": False}
    assert times(slow_host) == (256 - 150, 150)
    assert times(slow_host, activation_recomputation="full") == (384 - 250, 250)


def test_both_ends_send_as_much_as_one_block() -> None:
    """A share of the vocabulary each: the embedding's output, and the gradient of the head's input, once all-reduced."""
    assert times(vocabulary_size=16) == (4 * 64 + 2 * 64, 0)
    assert times(SEQUENCE, vocabulary_size=16) == ((10 + 4) * 32, 0)


def test_what_each_share_keeps() -> None:
    """s·b·h·(10 + 24/t) + 5·a·s²·b/t, and with sequence parallelism 34/t (arXiv 2205.05198, table 2): 320 + 384 + 80."""
    dropped = {"dropout": 0.1}
    assert whole_bytes(trained(TWO, dropped)) == 10 * 32 + 24 * 32 / 2 + 5 * 2 * 16 / 2
    assert whole_bytes(trained(TWO, dropped, SEQUENCE)) == 34 * 32 / 2 + 5 * 2 * 16 / 2
    # Gathered from its shares the sequence has 64 bytes more; the largest gradient is that of hidden units, 128 bytes.
    plain, split = (trained(TWO, more)["layer_working_bytes"] for more in ({}, SEQUENCE))
    assert (plain, split) == (2 * 128, 2 * 128 + 64)


def test_weights_are_cut_and_norms_too_are_counted_as_if() -> None:
    """768 weights and 48 of norms on two accelerators. Differs from Megatron-LM, where each holds the norms whole."""
    assert trained(TWO)["weight_bytes"] == 2 * (768 + 48) / 2


def test_transformer_engine_gathers_in_the_format_of_the_products() -> None:
    """In fp8 a gather of inputs or of gradients takes 16 of 32 s; scatters are sums in 16 bits.

    Forward and backward two gathers and two scatters each, and the two inputs again. Gradients with scales of blocks go
    in two layouts; in fp4 an entry has 4.5 of 16 bits, with its share of a scale.
    """
    rates = dict.fromkeys((f"{name}_peak_flop_rate" for name in ("bf16", "fp8", "fp4")), 1e30)
    fp8: dict[str, object] = {"matrix_precision": "fp8", "quantized_gathers": True, **rates}
    assert times(SEQUENCE, fp8 | {"quantized_gathers": False}) == (10 * 32, 0)
    assert times(SEQUENCE, fp8) == (4 * 32 + (2 + 2 + 2) * 16, 0)
    assert times(SEQUENCE, fp8, fp8_scaling="blocks") == (4 * 32 + (2 + 4 + 2) * 16, 0)
    assert times(SEQUENCE, fp8, matrix_precision="fp4") == (4 * 32 + (2 + 4 + 2) * 9, 0)
    assert times(SEQUENCE, fp8, matrix_precision="bf16") == (10 * 32, 0)
