"""Software stacks: rows of `software_specifications`, how a config names one, and the physics of what they leave undone."""

import json

import pytest
from typer.testing import CliRunner

import amped
from amped.base.errors import AmpedError
from amped.cli.app import app
from amped.tables.table_files import SOFTWARE
from amped.tables.tables import Tables
from tests.helpers.config import MAPPING
from tests.helpers.layers import (
    computed,
    exposure,
    idle_overlap,
    kernels,
    of_parallelism,
    overlapped_backward,
    repeats,
    waits,
)

FLASH = {"flash_attention": True, "dropout": 0, "activation_recomputation": "none", "system": "DGX H100"}
MIXTURE = {"expert_parallel_degree": 8, "tensor_parallel_degree": 1}


def step(**overrides):
    return amped.estimate("default", **overrides)


def config(row, **parameters):
    from amped.configuring.config import _raw

    written, _ = _raw("default")
    written[MAPPING]["lookup_config"] = {"lookup_table_name": SOFTWARE, "lookup_table_row": row}
    parameters = {"zero_stage": 1, **parameters}
    written[MAPPING]["parameters"] |= {name: {"value": value} for name, value in parameters.items()}
    return written


class TestChoosingARow:
    def test_a_config_names_it_as_it_names_an_accelerator(self):
        e = amped.estimate(config("llm-foundry"))
        told = amped.explain("streaming_traffic_factor", config("llm-foundry"))
        factor = Tables().row(SOFTWARE, "Composer FSDP").columns["streaming_traffic_factor"]
        assert e["streaming_traffic_factor"] == factor > 1
        assert told.origin == "table row"
        assert told.where == f"{SOFTWARE}, row 'Composer FSDP': {factor}"

    def test_what_a_config_says_counts_more_than_the_row(self):
        assert amped.estimate(config("torchtitan", streaming_traffic_factor=1.5))["streaming_traffic_factor"] == 1.5

    def test_what_a_row_of_models_says_counts_more_too(self):
        gpt = amped.estimate(config("PyTorch"), number_of_accelerators=1024)
        assert gpt["context"] == 2048  # no row of software says it
        assert amped.estimate("default", software="NeMo", zero_stage=0)["zero_stage"] == 0

    def test_a_call_names_it_and_what_a_config_maps_stays(self):
        named = amped.estimate(config("torchtitan"), software="Megatron-Core")
        assert named["streaming_traffic_factor"] == 1
        assert named["zero_stage"] == 1
        assert named.choices["activation_recomputation"] == "full"

    def test_no_name_is_amped_s_own_row(self):
        assert step()["step_time"] == step(software="all fused")["step_time"]

    def test_a_name_that_nobody_knows_is_refused_with_the_nearest(self):
        with pytest.raises(AmpedError, match="Composer FSDP"):
            step(software="Composer FSPD")

    def test_the_command_lists_shows_and_takes_it(self):
        run = CliRunner().invoke
        assert "torchtitan compiled" in run(app, ["list", "software"]).stdout
        assert json.loads(run(app, ["show", "torchtitan", "--json"]).stdout)[0]["table"] == SOFTWARE
        taken = run(app, ["estimate", "--software", "Megatron-LM 2021", "--json"])
        assert json.loads(taken.stdout)["step_time"] > step()["step_time"]

    @pytest.mark.thorough
    def test_several_are_explored_like_accelerators(self):
        found = amped.explore("default", vary={"software": ["Megatron-Core", "Megatron-LM 2021"]}, each=("software",))
        told = {candidate["software"] for group in found.groups.values() for candidate in group}
        assert told == {"Megatron-Core", "Megatron-LM 2021"}


class TestWhatARowLeavesUndone:
    def test_clocks_slow_products_and_attention_and_no_memory(self):
        whole, less = step(**FLASH, training_clock_fraction=0.8), step(**FLASH, training_clock_fraction=0.4)
        for name in ("sustained_matrix_flop_rate", "fused_forward_flop_rate", "fused_backward_flop_rate"):
            assert less[name] == pytest.approx(whole[name] / 2)
        assert less["achieved_memory_bandwidth"] == whole["achieved_memory_bandwidth"]

    def test_older_attention_is_slower_by_its_share(self):
        rates = [step(**FLASH, attention_kernel=k)["fused_forward_flop_rate"] for k in ("newest", "flash_2", "flash_1")]
        e = step(**FLASH, attention_kernel="flash_1")
        assert rates == sorted(rates, reverse=True)
        assert rates[2] / rates[0] == pytest.approx(e["flash_1_attention_fraction"])

    def test_in_order_only_the_backward_pass_waits(self):
        free, ordered = step(**FLASH), step(**FLASH, deterministic=True)
        assert ordered["fused_forward_flop_rate"] == free["fused_forward_flop_rate"]
        assert ordered["fused_backward_flop_rate"] == pytest.approx(
            free["fused_backward_flop_rate"] * free["deterministic_attention_fraction"]
        )

    def test_blackwell_has_no_newest_kernel_that_keeps_order(self):
        asked = FLASH | {"system": "DGX B200", "accelerator": "B200"}
        free, ordered = step(**asked), step(**asked, deterministic=True)
        assert ordered["fused_forward_flop_rate"] < 0.5 * free["fused_forward_flop_rate"]

    @pytest.mark.parametrize(("width", "share"), [(64, 0.740), (128, 1.0), (256, 1.123)])
    def test_narrow_heads_are_slower_as_flash_attention_3_measured(self, width, share):
        """√(1 + (79/128)²) / √(1 + (79/width)²); measured at 64: 0.66 to 0.9 of 128, at 256: 1 to 1.15."""
        rates = {}
        for wide in (128, width):
            heads, alone = 12288 // wide, {"kernel_overhead_time": 0, "attention_tile_rows": 0}  # no wait for the last
            e = step(**FLASH, attention_heads=heads, key_value_heads=heads, head_dimension=wide, **alone)
            (o,) = (
                o for o in e.results.records("layer_durations") if (o.name, o.phase) == ("fused_attention", "forward")
            )
            rates[wide] = 1 / float(o.time)
        assert rates[width] / rates[128] == pytest.approx(share, rel=2e-3)

    def test_dropout_costs_a_fused_attention_what_its_share_says(self):
        asked = FLASH | {"attention_dropout_fraction": 0.5, "kernel_overhead_time": 0}
        dry, wet = step(**asked), step(**asked | {"dropout": 0.1})
        assert repeats(wet).attention_core == pytest.approx(2 * repeats(dry).attention_core, rel=0.01)

    def test_shares_of_a_sequence_are_attended_to_more_slowly(self):
        for degree, slower in ((1, 1), (2, 2)):
            asked = FLASH | {"context_parallel_degree": degree, "kernel_overhead_time": 0, "attention_ramp_length": 0}
            whole, blocks = (step(**asked, context_parallel_attention_fraction=f) for f in (1, 0.5))
            times = [(repeats(e).attention_core, kernels(e).gradient.attention_core) for e in (whole, blocks)]
            assert times[1] == pytest.approx([slower * time for time in times[0]], rel=0.01)

    def test_traffic_that_is_not_fused_is_of_norms_and_element_wise_operators_alone(self):
        one, two = (step(**FLASH, streaming_traffic_factor=f) for f in (1, 2))
        pairs = zip(*(e.results.records("layer_durations") for e in (one, two)), strict=True)
        grown = {a.kind for a, b in pairs if b.time > a.time}
        assert grown == {"normalization", "element_wise"}
        assert one["optimizer_time"] == two["optimizer_time"]
        loss = [[d.time for d in e.results.records("output_head_durations") if d.kind == "loss"] for e in (one, two)]
        assert loss[0] == loss[1]

    @pytest.mark.parametrize(("zero_stage", "moved"), [(0, 2 + 4 + 4), (1, 2 + 4 + 4), (2, 2 + 2), (3, 2 + 2)])
    def test_separate_accumulation_reads_what_a_product_left_and_adds_or_copies_it(self, zero_stage, moved):
        asked = FLASH | {"zero_stage": zero_stage, "gradient_precision": 32, "pipeline_parallel_degree": 1}
        fused, apart = (step(**asked, weight_gradient_accumulation=how) for how in ("fused", "separate"))
        extra = [o for o in apart.results.records("layer_operators") if o.name.endswith("_accumulation")]
        weights = 12 * 12288**2 / 8  # of a layer over 8 accelerators
        assert sum(float(o.bytes) for o in extra) == pytest.approx(moved * weights)
        assert apart["weight_update_time"] > fused["weight_update_time"]
        assert apart["compute_forward_time"] == fused["compute_forward_time"]

    def test_recomputation_that_stops_early_leaves_out_the_last_product(self):
        e, early = step(), step(recomputation_stops_early=True)
        left_out = computed(e).recomputation - computed(early).recomputation
        (last,) = (
            float(d.time * d.count)
            for d in e.results.records("layer_durations")
            if (d.name, d.phase) == ("feedforward_down", "forward")
        )
        assert left_out == pytest.approx(last)
        # four of twelve parts of the products' work
        assert 0.2 < left_out / computed(e).recomputation < 1 / 3

    def test_a_slow_host_bounds_a_layer_and_adds_to_a_step(self):
        quick, slow = step(), step(host_time_per_layer="1 s", host_time_per_step="3 s")
        passes = [computed(slow).forward, computed(slow).input_gradient]
        assert passes == pytest.approx([1, 0.5], rel=1e-12)
        assert slow["optimizer_time"] == pytest.approx(quick["optimizer_time"] + 3)

    def test_exchanges_run_while_an_accelerator_waits_for_its_host(self):
        alone = {"overlap_tensor_communication": False}
        quick, slow = step(**alone), step(**alone, host_time_per_layer="1 s")
        assert idle_overlap(waits(quick).forward, "tensor") == 0
        assert exposure(quick, "tensor").exposed > 0
        assert exposure(slow, "tensor").exposed == pytest.approx(0, abs=1e-12)
        busy = sum(float(d.time * d.count) for d in slow.results.records("layer_durations") if d.phase == "forward")
        assert waits(slow).forward.idle == pytest.approx(1 - busy)

    def test_the_head_keeps_16_bit_beside_fp8(self):
        asked = {"system": "DGX H100", "accelerator": "H100 SXM"}
        wide, narrow = step(**asked), step(**asked, matrix_precision="fp8")
        assert narrow["output_head_forward_time"] == pytest.approx(wide["output_head_forward_time"])
        assert narrow["compute_forward_time"] < 0.9 * wide["compute_forward_time"]


class TestMemory:
    def test_the_allocator_holds_more_than_is_allocated(self):
        """What it reserves has to fit: BLOOM's runs of 76 to 82 GB of tensors ran out of memory on 80 GB."""
        e, exact = step(allocator_reserve_fraction=0.1), step()
        assert e["allocator_reserved_bytes"] == pytest.approx(1.1 * e["memory_per_accelerator_bytes"])
        assert 1.1 * e["available_memory_bytes"] == pytest.approx(exact["available_memory_bytes"])

    def test_a_loss_that_copies_logits_needs_them_in_full_precision(self):
        """Without copies the gradient takes 2 bytes; with them it comes after them, and two copies of 4 bytes are more."""
        one, more = step(**FLASH), step(**FLASH, cross_entropy_copies=2)
        logits = 2048 * amped.estimate("default")["vocabulary_size"] / 8  # of a micro-batch over 8 accelerators
        assert one["logits_gradient_bytes"] == pytest.approx((2 + 2) * logits)
        assert more["logits_gradient_bytes"] == pytest.approx((2 + 8) * logits)

    def test_a_loss_on_shares_of_the_vocabulary_has_one_more_copy(self):
        """Beside x: exp(x), the gradient, their sum; then the product takes the place of exp(x). Gathered logits: none."""
        copies = {"cross_entropy_copies": 2, "loss_parallel_copies": 1}
        shares, gathered = step(**FLASH, **copies), step(**FLASH, **copies, gathered_logits=True)
        vocabulary = amped.estimate("default")["vocabulary_size"]
        assert shares["logits_gradient_bytes"] == pytest.approx((2 + 12) * 2048 * vocabulary / 8)
        assert gathered["logits_gradient_bytes"] == pytest.approx((2 + 8) * 2048 * vocabulary)

    def test_a_fused_loss_keeps_the_logits_as_the_head_wrote_them(self):
        one, fused = step(**FLASH), step(**FLASH, fused_cross_entropy=True)
        assert fused["logits_gradient_bytes"] == 0
        assert fused["output_head_activation_bytes"] < one["output_head_activation_bytes"]
        assert fused["output_head_forward_time"] < one["output_head_forward_time"]


@pytest.mark.thorough
def test_every_row_estimates_and_none_is_faster_than_all_fused():
    best = step(flash_attention=True, dropout=0, zero_stage=1)["step_time"]
    for name in Tables().names(SOFTWARE):
        e = step(software=name, flash_attention=True, dropout=0, zero_stage=1, activation_recomputation="full")
        assert e["compute_forward_time"] > 0
        assert e["step_time"] > 0.9 * best, name


def test_what_is_not_prefetched_in_time_is_waited_for():
    asked = {"zero_stage": 3, "tensor_parallel_degree": 1, "pipeline_parallel_degree": 1, "number_of_accelerators": 8,
             "model": "Megatron 18.4B", "batch_size": 128, "microbatch_size": 8}  # fmt: skip
    all_of_it, part = (step(**asked, prefetched_sharding_fraction=f) for f in (1, 0.5))
    assert part["overlappable_data_fraction"] == pytest.approx(all_of_it["overlappable_data_fraction"] / 2)
    assert part["exposed_data_communication_time"] > all_of_it["exposed_data_communication_time"]
    unsharded = (step(zero_stage=1, prefetched_sharding_fraction=f)["step_time"] for f in (1, 0.5))
    assert len(set(unsharded)) == 1


def test_in_chunks_all_gathers_and_scatters_but_one_of_eight_hide_and_gradients_gathered_too():
    """Each of seven further chunks of two gathers, of two scatters, and of two gradients costs a call and a kernel."""
    e = step(**FLASH, sequence_parallel=True, overlap_forward_tensor_communication=True)
    gathers, scatters = (
        sum(float(d.time * d.count) for d in e.results.records("tensor_durations") if d.kind == kind)
        for kind in ("all_gather", "reduce_scatter")
    )
    forward = of_parallelism(waits(e).forward.messages, "tensor").overlapped
    backward = overlapped_backward(e, "tensor", "gradients")
    lost = 6 * 7 * (e["collective_overhead_time"] + e["kernel_overhead_time"])
    assert forward + backward == pytest.approx(7 / 8 * (gathers + 2 * scatters) - lost)
    assert exposure(e, "tensor").exposed > 0


def test_chunks_hide_nothing_if_the_group_spans_nodes():
    asked = {**FLASH, "sequence_parallel": True, "number_of_accelerators_per_node": 4}
    off, on = (step(**asked, overlap_forward_tensor_communication=switch) for switch in (False, True))
    assert on["inter_node_tensor_parallel_degree"] == 2
    assert on["step_time"] == off["step_time"]
