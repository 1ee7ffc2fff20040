"""Memory in the operator model against published closed forms and schedules walked through."""

from functools import cache
from itertools import accumulate

import pytest

import amped
from amped.base.errors import MappingError
from amped.theory.language.quantity import ACCELERATOR, NETWORK, SYSTEM
from tests.helpers.formulas import sectioned
from tests.helpers.layers import whole_bytes
from tests.helpers.stages import of_stage, working_bytes

MACHINE = {SYSTEM: "Selene", ACCELERATOR: "A100 SXM 80GB"}


def estimated(rows=MACHINE, **given):
    return amped.estimate(sectioned({"tokens_to_train": "1 G", "tensor_parallel_degree": 1, **given}, rows))


# --- activations of a layer: arXiv 2205.05198, Table 2 and sections 4 and 5 --------------------------------------------

# s, h, a and micro-batch b of the paper's 22B and 175B networks.
SHAPES = [pytest.param(2048, 6144, 64, 4, id="22B"), pytest.param(2048, 12288, 96, 1, id="175B")]
# Bytes of a layer: s·b·h·(whole + split/t) + scores·a·s²·b/t, with and without sequence parallelism.
TABLE_2 = [("none", False, 10, 24, 5), ("none", True, 0, 34, 5), ("selective", False, 10, 24, 0),
           ("selective", True, 0, 34, 0), ("full", False, 2, 0, 0), ("full", True, 0, 2, 0)]  # fmt: skip


@cache
def layer(s, h, a, b, t, **more):
    sizes = {"layers": 2, "dimensionality": h, "attention_heads": a, "vocabulary_size": 51200, "context": s}
    mapping = {"tensor_parallel_degree": t, "number_of_accelerators": t, "batch_size": b, "microbatch_size": b}
    return estimated(**{"dropout": 0.1, "flash_attention": False, **sizes, **mapping, **more})


@pytest.mark.parametrize("t", [1, 8])
@pytest.mark.parametrize(("recomputation", "sequence_parallel", "whole", "split", "scores"), TABLE_2)
@pytest.mark.parametrize(("s", "h", "a", "b"), SHAPES)
def test_activations_of_a_layer(s, h, a, b, t, recomputation, sequence_parallel, whole, split, scores):
    e = layer(s, h, a, b, t, activation_recomputation=recomputation, sequence_parallel=sequence_parallel)
    stream, square = s * b * h, a * s * s * b
    assert e["kept_activation_bytes_per_layer"] == stream * whole + (stream * split + square * scores) // t
    everything = stream * 34 // t if sequence_parallel else stream * 10 + stream * 24 // t
    assert whole_bytes(e) == everything + 5 * square // t
    assert e["score_activation_bytes"] == 5 * square // t


@pytest.mark.parametrize("sequence_parallel", [False, True])
@pytest.mark.parametrize("t", [1, 8])
@pytest.mark.parametrize(("s", "h", "a", "b"), SHAPES)
def test_flash_attention_drops_the_scores_and_keeps_a_number_for_each_row_and_head(s, h, a, b, t, sequence_parallel):
    """arXiv 2205.14135, algorithm 1: the logarithm of a row's sum, in full precision."""
    unfused, fused = (layer(s, h, a, b, t, sequence_parallel=sequence_parallel, flash_attention=on) for on in (0, 1))
    saved = whole_bytes(unfused) - whole_bytes(fused)
    assert saved == 5 * a * s * s * b // t - 4 * s * b * a // t
    assert fused["score_activation_bytes"] == 0


def test_without_dropout_there_are_no_masks_and_no_second_copy_of_the_scores():
    """s·b·h·(34 − 2) and 2·a·s²·b: arXiv 2205.05198, section 4.1 without its masks and the dropout's output."""
    assert whole_bytes(layer(2048, 6144, 64, 4, 1, dropout=0)) == 2048 * 4 * (6144 * 32 + 2 * 64 * 2048)


@cache
def on_64(**more):
    mapping = {"number_of_accelerators": 64, "pipeline_parallel_degree": 1, "batch_size": 64, "microbatch_size": 1}
    return estimated({NETWORK: "Megatron 7.5B", **MACHINE}, **{**mapping, **more})


def bytes_per_parameter(**more):
    e = on_64(**more)
    return (e["weight_bytes"] + e["gradient_bytes"] + e["optimizer_state_bytes"]) / e["number_of_parameters"]


def test_mixed_precision_adam_takes_18_bytes_a_parameter():
    """2 of the weight, 4 of its gradient, 12 of Adam. Source: arXiv 2205.05198, Figure 1."""
    assert bytes_per_parameter() == 18
    assert bytes_per_parameter(tensor_parallel_degree=8) == 18 / 8


def test_weights_of_full_precision_need_no_second_copy():
    """Weight, gradient and two moments of 4 bytes: the copy is of mixed precision (arXiv 1910.02054, section 3.1)."""
    whole = dict.fromkeys(("weight_precision", "gradient_precision", "activation_precision"), "4 B")
    assert bytes_per_parameter(matrix_precision="fp32", **whole) == 16


@pytest.mark.parametrize(("stage", "gigabytes"), [(0, 120), (1, 31.4), (2, 16.6), (3, 1.9)])
def test_zero_stages_take_what_figure_1_of_its_paper_says(stage, gigabytes):
    """7.5B parameters on 64 accelerators, gradients of 2 bytes. Source: arXiv 1910.02054, Figure 1."""
    assert 7.5 * bytes_per_parameter(zero_stage=stage, gradient_precision="2 B") == pytest.approx(gigabytes, abs=0.05)
    hybrid = bytes_per_parameter(zero_stage=stage, gradient_precision="2 B", sharding_degree=8)
    assert hybrid == [16, 4, 2, 0][stage] + [0, 12, 14, 16][stage] / 8


def most_in_flight(schedule, p, m, v, rank):
    """Walks through the passes of a stage: the most whose backward pass is still to come, in stages' worth of layers."""
    warm = 2 * (p - rank - 1) + (v - 1) * p if v > 1 else p - rank - 1
    warm = m * v if schedule == "gpipe" else min(warm, m * v)
    passes = [1] * warm + [1, -1] * (m * v - warm) + [-1] * warm
    return max(accumulate(passes)) / v


PIPES = [("1f1b", 4, 8, 1), ("1f1b", 4, 2, 1), ("1f1b", 2, 8, 1), ("1f1b", 8, 8, 1), ("gpipe", 4, 8, 1),
         ("1f1b", 4, 8, 2), ("1f1b", 8, 64, 4), ("1f1b", 4, 4, 2), ("1f1b", 4, 4, 4)]  # fmt: skip


@cache
def pipe(schedule="1f1b", p=4, m=8, v=1, words=51200, **more):
    network = {"layers": 32, "dimensionality": 4096, "attention_heads": 32, "vocabulary_size": words, "context": 2048}
    mapping = {"number_of_accelerators": p, "pipeline_parallel_degree": p, "batch_size": m, "microbatch_size": 1}
    chosen = {"virtual_pipeline_stages": v, "pipeline_schedule": schedule, "data_parallel_degree": 1}
    return estimated(**network, **mapping, **chosen, **more)


@pytest.mark.parametrize(("schedule", "p", "m", "v"), PIPES)
def test_micro_batches_in_flight_are_those_of_the_schedule(schedule, p, m, v):
    e = pipe(schedule, p, m, v)
    found = [of_stage(e, stage, "microbatches_in_flight") for stage in ("first", "middle", "last")]
    assert found == pytest.approx([most_in_flight(schedule, p, m, v, rank) for rank in (0, 1, p - 1)], rel=1e-12)


def test_gpipe_keeps_the_logits_of_every_micro_batch():
    """arXiv 1811.06965: no backward pass starts before the last forward pass."""
    e = pipe("gpipe", m=8)
    kept, head = e["kept_activation_bytes_per_layer"], e["output_head_activation_bytes"]
    assert of_stage(e, "last", "activation_bytes") == 8 * (8 * kept + head)


def stage_totals(e):
    """Bytes of the first, a middle and the last stage."""
    alone = e["pipeline_parallel_degree"] == 1
    return [
        of_stage(e, s, "state_bytes") + of_stage(e, s, "activation_bytes") + working_bytes(e, alone or s == "last")
        for s in ("first", "middle", "last")
    ]


def test_uneven_stages_have_the_layers_given():
    e = pipe(number_of_first_stage_layers=5, number_of_last_stage_layers=3)
    kept, ends = e["kept_activation_bytes_per_layer"], e["embedding_activation_bytes"]
    assert of_stage(e, "first", "activation_bytes") == (5 * kept + ends) * 4
    assert of_stage(e, "middle", "activation_bytes") == 12 * kept * 3
    assert of_stage(e, "last", "activation_bytes") == 3 * kept + e["output_head_activation_bytes"]
    one, words = 12 * 4096**2 + 13 * 4096, 51200 * 4096
    assert of_stage(e, "middle", "state_bytes") == pytest.approx(18 * 12 * one, rel=1e-2)
    assert of_stage(e, "first", "state_bytes") == pytest.approx(18 * (5 * one + words + 2048 * 4096), rel=1e-2)
    assert of_stage(e, "last", "state_bytes") == pytest.approx(18 * (3 * one + words), rel=1e-2)


FULLEST = {
    "1f1b, even": ({}, "first"), "alone": ({"p": 1}, "last"), "all in flight": ({"schedule": "gpipe"}, "last"),
    "few layers first": ({"number_of_first_stage_layers": 2, "number_of_last_stage_layers": 2}, "middle"),
    "most layers last": ({"number_of_first_stage_layers": 1, "number_of_last_stage_layers": 29}, "last"),
    "large vocabulary": ({"m": 4, "activation_recomputation": "full", "words": 409600}, "last"),
}  # fmt: skip


@pytest.mark.parametrize(("given", "fullest"), FULLEST.values(), ids=FULLEST)
def test_the_fullest_stage_is_told(given, fullest):
    e = pipe(**given)
    assert e.fullest_stage == fullest
    assert max(stage_totals(e)) == stage_totals(e)[["first", "middle", "last"].index(fullest)]
    assert e["activation_bytes"] == of_stage(e, fullest, "activation_bytes")
    assert e["memory_per_accelerator_bytes"] == pytest.approx(max(stage_totals(e)), rel=1e-12)


def assert_memory_never_grows(estimates):
    used = [e["memory_per_accelerator_bytes"] for e in estimates]
    assert used == sorted(used, reverse=True)


@pytest.mark.parametrize("recomputation", ["none", "selective", "full"])
@pytest.mark.parametrize("sequence_parallel", [False, True])
def test_memory_never_grows_with_tensor_parallelism(recomputation, sequence_parallel):
    given = {"activation_recomputation": recomputation, "sequence_parallel": sequence_parallel, "layers": 24}
    assert_memory_never_grows(layer(2048, 6144, 64, 4, t, **given) for t in (1, 2, 4, 8))


def test_memory_never_grows_with_zero_stages_or_sharding():
    grid = [[on_64(zero_stage=stage, sharding_degree=n) for n in (2, 8, 64)] for stage in range(4)]
    for line in (*grid, *zip(*grid, strict=True)):
        assert_memory_never_grows(line)


# --- memory policies: arXiv 2210.10246 (Tempo) -------------------------------------------------------------------------

B, S, H, A = 4, 384, 1024, 16
STREAM, SQUARE = B * S * H, B * A * S * S
# Bytes saved for a size w of an entry; more bytes moved forward, and backward.
POLICIES = {
    "in_place_activation": lambda w: (4 * STREAM * (w - 1 / 8), 4 * STREAM / 8, 4 * STREAM / 8),
    "in_place_norm": lambda w: (2 * STREAM * w, 0, 0),
    "dropout_recomputation": lambda w: (SQUARE * w, 0, 2 * SQUARE * w),
    "activation_function_recomputation": lambda w: (4 * STREAM * w, 0, 2 * 4 * STREAM * w),
    "norm_recomputation": lambda w: (2 * STREAM * w, 0, 2 * 2 * STREAM * w),
}
GRADIENTS = ("input_gradient", "weight_gradient")
SIZES = pytest.mark.parametrize("w", [2, 4], ids=["16-bit", "fp32"])


def with_policies(w, *policies, **more):
    return layer(S, H, A, B, 1, activation_precision=f"{w} B", **dict.fromkeys(policies, True), **more)


def moved(e, *phases):
    return sum(o.bytes * o.count for o in e.results.records("layer_operators") if o.phase in phases)


@SIZES
@pytest.mark.parametrize("position", ["pre", "post"])
@pytest.mark.parametrize("policy", POLICIES)
def test_policies_save_exactly_the_bytes_of_their_paper(policy, position, w):
    kept, less = with_policies(w, norm_position=position), with_policies(w, policy, norm_position=position)
    saved = POLICIES[policy](w)[0]
    assert whole_bytes(kept) - whole_bytes(less) == saved
    assert kept["kept_activation_bytes_per_layer"] - less["kept_activation_bytes_per_layer"] == saved


@SIZES
@pytest.mark.parametrize("policy", POLICIES)
def test_policies_move_the_bytes_of_masks_and_of_what_they_compute_again(policy, w):
    _, forward, backward = POLICIES[policy](w)
    kept, less = with_policies(w), with_policies(w, policy)
    assert moved(less, "forward") - moved(kept, "forward") == pytest.approx(forward, rel=5e-3)
    assert moved(less, *GRADIENTS) - moved(kept, *GRADIENTS) == pytest.approx(backward, rel=5e-3)


@SIZES
def test_a_gated_function_reads_both_of_its_inputs_again_and_does_not_work_in_place(w):
    kept = with_policies(w, gated_mlp=True)
    again = with_policies(w, "activation_function_recomputation", gated_mlp=True)
    assert moved(again, *GRADIENTS) - moved(kept, *GRADIENTS) == pytest.approx((2 + 1) * 4 * STREAM * w, rel=5e-3)
    assert whole_bytes(kept) - whole_bytes(again) == 4 * STREAM * w
    alone = with_policies(w, "in_place_activation", gated_mlp=True)
    assert whole_bytes(alone) == whole_bytes(kept)


@SIZES
def test_a_gate_that_is_not_fused_keeps_the_output_of_its_function(w):
    """PyTorch's autograd of silu(gate) · up: the product keeps both of its factors, 4·h entries of a token more."""
    kept, more = with_policies(w, gated_mlp=True), with_policies(w, gated_mlp=True, unfused_gate=True)
    assert whole_bytes(more) - whole_bytes(kept) == 4 * STREAM * w


def test_latent_attention_that_projects_again_keeps_no_queries_keys_and_values():
    """16 heads of 64 + 32 entries in queries and keys, of 64 in values, 2 bytes each; both up projections run again."""
    sizes = {"query_latent_dimension": 256, "key_value_latent_dimension": 128, "rotary_head_dimension": 32,
             "head_dimension": 96, "value_head_dimension": 64}  # fmt: skip
    kept, again = (
        layer(
            S,
            H,
            A,
            B,
            1,
            attention_kind="multi_latent",
            flash_attention=True,
            **sizes,
            latent_projection_recomputation=on,
        )
        for on in (False, True)
    )
    saved = B * S * A * (96 + 96 + 64) * 2
    assert whole_bytes(kept) - whole_bytes(again) == saved
    flops = {
        o.name: o.flops * o.count for o in again.results.records("layer_operators") if o.phase != "weight_gradient"
    }
    assert flops["query_up_again"] == 2 * B * S * 256 * A * 96
    assert flops["key_value_up_again"] == 2 * B * S * 128 * A * (64 + 64)


@SIZES
def test_tempo_saves_the_share_that_its_modules_save(w):
    """S=512, H=1024, A=16, masks of bytes as its kernels have them: 24 of 74 B·S·H, in fp32 52 of 138."""
    names, size = (
        dict.fromkeys(list(POLICIES)[:3], True),
        {"activation_precision": f"{w} B", "packed_mask_precision": "1 B"},
    )
    kept, less = (whole_bytes(layer(512, H, A, B, 1, **size, **chosen)) for chosen in ({}, names))
    assert (kept - less, kept) == tuple(B * 512 * H * number for number in {2: (24, 74), 4: (52, 138)}[w])


@pytest.mark.parametrize(("place", "again"), [("norm", "norm"), ("activation", "activation_function")])
def test_what_works_from_its_output_needs_it_kept(place, again):
    with pytest.raises(MappingError, match="not both"):
        with_policies(2, f"in_place_{place}", f"{again}_recomputation")


# --- what stacks keep besides, and what a compiler saves ---------------------------------------------------------------

SHARED = {"layers": 4, "dimensionality": 1024, "attention_heads": 8, "vocabulary_size": 51200, "context": 2048,
          "tensor_parallel_degree": 4, "sequence_parallel": True, "flash_attention": True, "microbatch_size": 2}  # fmt: skip


def test_gathered_inputs_that_stay_are_whole_sequences() -> None:
    """Two products of a layer and the output head keep all tokens of the group instead of a quarter of them."""
    stay, share = (
        estimated(**SHARED, number_of_accelerators=4, batch_size=8, gathered_inputs_stay=on) for on in (True, False)
    )
    whole = 2 * 2048 * 1024 * 2
    assert whole_bytes(stay) - whole_bytes(share) == 2 * whole * 3 / 4
    assert stay["output_head_activation_bytes"] - share["output_head_activation_bytes"] == whole * 3 / 4


def test_a_stage_of_pytorch_has_buffers_for_each_microbatch_of_a_run() -> None:
    """Four micro-batches, each with a buffer for each direction, instead of one of each."""
    staged = {**SHARED, "number_of_accelerators": 8, "pipeline_parallel_degree": 2, "batch_size": 8}
    all_of_them, one = (estimated(**staged, receive_buffers_of_all_microbatches=on) for on in (True, False))
    share = 2 * 2048 * 1024 * 2 / 4
    more = all_of_them["communication_buffer_bytes"] - one["communication_buffer_bytes"]
    assert more == 2 * (4 - 1) * share


COMPILED = {
    **SHARED, "tensor_parallel_degree": 1, "sequence_parallel": False, "number_of_accelerators": 1, "batch_size": 8,
    "activation_recomputation": "full", "vocabulary_size": 512, "reserved_memory_bytes": 0,
}  # fmt: skip


class TestRematerialization:
    """A compiler computes values of the recomputed layer once more instead of keeping them, if they do not fit."""

    def run(self, capacity: float = 80e9, fitting: str = "rematerialization"):
        return estimated(**COMPILED, memory_capacity=capacity, memory_fitting=fitting)

    def test_it_saves_what_is_lacking(self) -> None:
        roomy = self.run()
        tight = self.run(roomy["memory_per_accelerator_bytes"] - 0.25 * roomy["rematerializable_bytes"])
        assert roomy["rematerialized_layer_fraction"] == 0
        assert tight["rematerialized_layer_fraction"] == pytest.approx(0.25)
        assert tight["fits_in_memory"]
        assert tight["memory_per_accelerator_bytes"] == pytest.approx(tight["available_memory_bytes"])

    def test_the_largest_microbatch_counts_with_it(self) -> None:
        capacity = self.run()["memory_per_accelerator_bytes"]
        assert self.run(capacity)["largest_microbatch_size"] == 4
        fits = [estimated(**COMPILED | {"microbatch_size": size}, memory_capacity=capacity, memory_fitting="rematerialization")
                ["fits_in_memory"] for size in (4, 8)]  # fmt: skip
        assert fits == [True, False]

    def test_it_takes_that_share_of_the_forward_pass(self) -> None:
        roomy = self.run()
        tight = self.run(roomy["memory_per_accelerator_bytes"] - 0.25 * roomy["rematerializable_bytes"])
        more = tight["recomputation_time"] - roomy["recomputation_time"]
        assert more == pytest.approx(
            0.25 * roomy["recomputation_time"], rel=0.02
        )  # both are forward passes of all layers
        assert tight["step_time"] > roomy["step_time"]

    def test_what_layers_keep_stays(self) -> None:
        roomy = self.run()
        short = self.run(roomy["memory_per_accelerator_bytes"] - 1.01 * roomy["rematerializable_bytes"])
        assert short["rematerialized_layer_fraction"] == 1
        assert not short["fits_in_memory"]
        assert short["activation_bytes"] == roomy["activation_bytes"]

    def test_without_such_a_compiler_nothing_is_saved(self) -> None:
        need = self.run()["memory_per_accelerator_bytes"]
        assert not self.run(0.999 * need, "none")["fits_in_memory"]
