"""A stage on paper: its layers, the embedding and the output head, what it holds, and who waits for whom.

The layer is the GPT of `test_layer.py`: 4416 bytes forward, 5568 and 7168 backward, where a second moves one byte. Each of
two stages has one; a vocabulary of 16 words is tied to the head; two micro-batches of one sequence make a step.
"""

import pytest

from tests.helpers.round_machine import ONE_BYTE_A_SECOND, trained
from tests.helpers.stages import bottleneck, of_stage
from tests.theory.by_hand.test_layer import GPT

TWO_STAGES = GPT | {
    "layers": 2, "vocabulary_size": 16, "tied_embeddings": True, "number_of_accelerators": 2, "pipeline_parallel_degree": 2,
    "batch_size": 2,
}  # fmt: skip
FORWARD, INPUT, WEIGHT = 4416, 5568, 7168  # of a layer
# 4 rows of 8 entries: their numbers 64 bytes and the rows 64 are read, 64 written. Backward 64 bytes of gradients and as
# many rows of 4 bytes an entry of the table's gradient are read, and these are written.
EMBEDDING, EMBEDDING_BACK = 64 + 64 + 64, 64 + 128 + 128
# Norm as in a layer. Head: 4·8 inputs, 8·16 weights, 4·16 logits of 2 bytes.
HEAD = 160 + (64 + 256 + 128)
HEAD_INPUT, HEAD_WEIGHT = 384 + (128 + 256 + 64), 64 + 128 + 2 * 8 * 16 * 4
# Six kernels pass over 64 logits, of which 2 bytes are cast to 4 (256 bytes): the first reads 128, four read 256, and three
# write 256; backward three reads and two writes of 256, and the gradient of 128 (Megatron-LM, vocab_parallel_cross_entropy).
LOSS, LOSS_BACK = 128 + 4 * 256 + 3 * 256, 3 * 256 + 2 * 256 + 128
FIRST = (FORWARD + EMBEDDING, INPUT + EMBEDDING_BACK, WEIGHT)
LAST = (FORWARD + HEAD + LOSS, INPUT + HEAD_INPUT + LOSS_BACK, WEIGHT + HEAD_WEIGHT)


def test_the_last_stage_paces_with_its_head_and_the_first_is_waited_for_once() -> None:
    """1F1B of two micro-batches: F of the first stage, both of the last, B of the first.

    stage 0: F0 F1 .  .  .  B0 .  .  B1
    stage 1: .  F0 .  B0 .  F1 .  B1      (never idle between its first and its last pass)
    """
    e = trained(TWO_STAGES, ONE_BYTE_A_SECOND)
    assert bottleneck(e) == "last"
    parts = ("compute_forward_time", "compute_backward_time", "weight_update_time")
    assert [e[name] for name in parts] == [2 * seconds for seconds in LAST]
    assert e["pipeline_bubble_time"] == sum(FIRST)
    assert sum(FIRST) == 17_664
    assert sum(LAST) == 23_136


# Parameters: a layer has 8·24 + 8·8 + 2·8·32 = 768 weights and two norms of 2·8; the table 16·8; the final norm 2·8.
LAYER_PARAMETERS, TABLE, FINAL_NORM = 768 + 32, 128, 16


def test_what_each_stage_holds() -> None:
    """The head of a tied table is a copy of it (Megatron-LM, embedding group): 800 + 16 + 128 = 944 parameters.

    First 18·928 + 2·1088 + 640 = 19 520 bytes, last 18·944 + 1472 + 640 + 256 = 19 360: the first is the fuller.
    """
    e, first, last = trained(TWO_STAGES), LAYER_PARAMETERS + TABLE, LAYER_PARAMETERS + FINAL_NORM + TABLE
    assert e["number_of_parameters"] == 2 * LAYER_PARAMETERS + TABLE + FINAL_NORM
    assert [of_stage(e, "first", "state_bytes"), of_stage(e, "last", "state_bytes")] == [18 * first, 18 * last]
    assert [e[f"{kind}_bytes"] for kind in ("weight", "gradient", "optimizer_state")] == [
        2 * first,
        4 * first,
        12 * first,
    ]
    # A layer keeps 1088 bytes; the first stage has two micro-batches in flight, the last one.
    assert e["activation_bytes"] == of_stage(e, "first", "activation_bytes") == 2 * 1088
    # Inputs of the final norm and of the head, 64 bytes each, and logits of 4 bytes.
    assert of_stage(e, "last", "activation_bytes") == 1088 + 128 + 256
    # The logits before the loss and their gradient, 2 bytes each.
    assert e["logits_gradient_bytes"] == 2 * 128
    # The gradient of the hidden units, 4·32·2 bytes, and the one it comes from; a micro-batch sent and one received.
    assert e["temporary_bytes"] == 2 * 256 + 2 * 64
    assert e["memory_per_accelerator_bytes"] == 18 * first + 2 * 1088 + 640


def test_an_update_passes_over_gradients_and_states() -> None:
    """Bytes of a parameter: scale undone 4 + 4, norm 4, clipping 4 + 4, Adam 4 + 12 read and 12 written, copy 4 + 2, reset 4.

    Source: Megatron-LM, Float16OptimizerWithFloat16Params; arXiv 1412.6980.
    """
    bytes_of_each = 8 + 4 + 8 + (4 + 12 + 12) + 6 + 4
    e = trained(TWO_STAGES, ONE_BYTE_A_SECOND)
    assert e["optimizer_time"] == bytes_of_each * 944
    unclipped = trained(TWO_STAGES, ONE_BYTE_A_SECOND, gradient_clipping=False)
    assert unclipped["optimizer_time"] == (bytes_of_each - 12) * 944
    # One moment; a weight of full precision is updated itself.
    assert trained(TWO_STAGES, ONE_BYTE_A_SECOND, optimizer="sgd")["optimizer_time"] == (bytes_of_each - 8) * 944
    assert trained(TWO_STAGES, ONE_BYTE_A_SECOND, optimizer="none")["optimizer_time"] == 0


def test_a_stage_alone_has_both_ends_and_one_table() -> None:
    e = trained(TWO_STAGES, ONE_BYTE_A_SECOND, number_of_accelerators=1, pipeline_parallel_degree=1, microbatch_size=1)
    assert e["pipeline_bubble_time"] == 0
    assert e["compute_forward_time"] == 2 * (2 * FORWARD + EMBEDDING + HEAD + LOSS)
    assert e["weight_bytes"] == 2 * (2 * LAYER_PARAMETERS + TABLE + FINAL_NORM)
    assert e["activation_bytes"] == 2 * 1088 + 128 + 256


def test_dropout_of_the_embedding() -> None:
    """It reads 64 bytes and writes 64 and a mask of 32; backward as many. The first stage keeps two masks."""
    plain, dropped = (trained(TWO_STAGES, ONE_BYTE_A_SECOND, dropout=share) for share in (0, 0.1))
    assert dropped["embedding_forward_time"] - plain["embedding_forward_time"] == 160
    assert dropped["embedding_backward_time"] - plain["embedding_backward_time"] == 160
    assert dropped["embedding_activation_bytes"] == 32


def test_a_fused_loss_reads_narrow_logits_once_and_writes_its_gradient_over_them() -> None:
    e = trained(TWO_STAGES, ONE_BYTE_A_SECOND, fused_cross_entropy=True)
    assert e["output_head_forward_time"] == HEAD + 128
    assert e["output_head_input_gradient_time"] == HEAD_INPUT + 128 + 128
    assert e["output_head_activation_bytes"] == 2 * 64 + 128
    assert e["logits_gradient_bytes"] == 0


def test_the_flops_of_a_step() -> None:
    """Two layers of 3328 products, a head of 4·8·16 = 512, 2 flop each, three times, two micro-batches, on 2 accelerators."""
    e = trained(TWO_STAGES, activation_recomputation="full")
    assert e["model_flops_per_accelerator"] == 3 * 2 * (2 * 3328 + 512)
    assert e["hardware_flops_per_accelerator"] == 3 * 2 * (2 * 3328 + 512) + 2 * 2 * 3328
    core = trained(TWO_STAGES, activation_recomputation="selective")
    assert core["hardware_flops_per_accelerator"] == 3 * 2 * (2 * 3328 + 512) + 2 * 2 * 256


# --- hand-overs ------------------------------------------------------------------------------------------------------


def test_a_hand_over_takes_its_bytes_its_latency_and_a_gather_of_its_parts() -> None:
    """Four accelerators a stage, two of them tensor-parallel: each sends its half of 64 bytes to the other node.

    A card of 4 B/s in each node of 4, 1 B/s each: 32 s and 3 s of latency. Two shares gather 64 bytes over 16 B/s: half of
    it, 2 s, and 1 s of latency (arXiv 2104.04473, section 4.1). With sequence parallelism each goes on with its own.
    """
    machine = {"number_of_accelerators_per_node": 4, "number_of_network_cards_per_node": 1, "bandwidth_per_network_card": "4 B/s",
               "inter_node_latency": 3, "inter_accelerator_bandwidth": "16 B/s", "inter_accelerator_latency": 1}  # fmt: skip
    mapping = {"number_of_accelerators": 8, "tensor_parallel_degree": 2, "data_parallel_degree": 2, "batch_size": 4}
    e = trained(TWO_STAGES, machine, mapping)
    assert e["stage_send_time"] == 32 + 3 + 2 + 1
    # The gradient comes back as it went; the first stage has no neighbor before it.
    assert e["exposed_pipeline_communication_time"] == 2 * 38
    alone = trained(TWO_STAGES, machine, mapping, sequence_parallel=True)
    assert alone["stage_send_time"] == 32 + 3


@pytest.mark.parametrize(("overlapped", "exposed"), [(False, 2), (True, 0)])
def test_hand_overs_are_waited_for_unless_they_go_beside_passes(overlapped: bool, exposed: int) -> None:
    """The last stage hands over two micro-batches of 64 bytes at 64 B/s."""
    links = {"inter_accelerator_bandwidth": "64 B/s", "overlap_pipeline_communication": overlapped}
    assert trained(TWO_STAGES, ONE_BYTE_A_SECOND, links)["exposed_pipeline_communication_time"] == exposed
