"""What a library does besides the kernel: worlds of round numbers, worked out by hand."""

import dataclasses

import numpy as np
import pytest

from amped.calibration.kernel_errors import machine
from amped.measured_kernels.attention import (
    SPILLED_BYTES_PER_CYCLE,
    attention_operator,
    attention_time,
    in_format,
    is_untiled,
    prepared_bytes,
    spilling_time,
)
from amped.measured_kernels.experts import (
    converted_bytes,
    experts_time,
    fullest_share,
    fullest_shares,
    limited_load,
    moved_visits,
    spread_load,
)
from amped.measured_kernels.kinds import PACKING, collective_time, host_factor
from amped.measured_kernels.latent_attention import (
    copied_bytes,
    expansion_operator,
    has_expansion,
    latent_attention_operator,
    latent_attention_time,
)
from amped.measured_kernels.predictor import operator_time
from amped.tables.tables import Tables

PROMPT = {"batch": 2, "tokens": 1024, "heads": 8, "key_value_heads": 2, "head_dimension": 128, "window": 0}
LAYER = {"tokens": 4096, "dimensionality": 4096, "expert_feedforward_dimension": 2048, "experts_per_token": 2,
         "number_of_experts": 8, "tensor_degree": 1, "expert_degree": 1, "distribution": "balanced", "kernel": "own"}  # fmt: skip


def columns(**cells):
    return {name: np.array([value]) for name, value in cells.items()}


def predictor(accelerator="H100 SXM", precision="bfloat16"):
    return machine(accelerator, precision, Tables())


class TestAttention:
    # Queries have 2·1024·8·128 = 2,097,152 entries; keys and values each a quarter of that.
    @pytest.mark.parametrize(("software", "entry", "moved"), [
        ("TRTLLM 1.3", 2.0, (2_097_152 + 2 * 524_288) * 4),  # all three are read and written in 16 bits
        ("TRTLLM 1.3", 1.0, (2_097_152 + 2 * 524_288) * 3),  # … and written in 8
        ("VLLM 0.24", 2.0, 2 * 524_288 * 4),  # keys and values go to the cache
        ("torch", 2.0, 0),
    ])  # fmt: skip
    def test_is_prepared_by_its_library(self, software, entry, moved):
        assert prepared_bytes(columns(**PROMPT, software=software), entry) == moved

    def test_takes_longer_by_that(self):
        own, bare = (attention_time(columns(**PROMPT, software=s), predictor()) for s in ("TRTLLM 1.3", "torch"))
        bandwidth = predictor().rates.streams.bandwidth
        assert own - bare == pytest.approx((2_097_152 + 2 * 524_288) * 4 / bandwidth)

    def test_in_16_bits_has_its_own_rates(self):
        rates = predictor().rates
        assert in_format(rates).attention.forward_rate == pytest.approx(rates.attention.forward_rate)
        assert in_format(rates).attention.forward_ramp == rates.attention.forward_ramp

    def test_in_8_bits_has_faster_products_and_the_same_exponentials(self):
        rates = predictor(precision="fp8").rates
        faster = rates.products.batched_time / rates.products.matrix_time
        assert faster > 1.5

        def over(a, width):  # the time of a score: of its products, and of its exponentials
            both = a.forward_rate / np.hypot(1, a.forward_ramp.width / width) * np.hypot(1, a.forward_ramp.width / 128)
            whole = width / both
            products = whole / np.hypot(1, a.forward_ramp.width / width)
            return products, np.sqrt(whole**2 - products**2)

        for width in (64, 128, 256):
            wide, narrow = (over(a, width) for a in (rates.attention, in_format(rates).attention))
            assert wide[0] / narrow[0] == pytest.approx(faster)
            assert wide[1] / narrow[1] == pytest.approx(1.0)

    def test_finds_what_it_prepared_in_a_cache_if_cores_are_faster_than_memory(self):
        """A prompt of 1024 tokens fits in the 96 MiB of L40S, whose 142 cores at 2.52 GHz move 10 bytes a cycle."""
        for name, rate in (("L40S", 142 * 2.52e9 * 10), ("H100 SXM", predictor().rates.streams.bandwidth)):
            machine = predictor(name)
            own, bare = (attention_time(columns(**PROMPT, software=s), machine) for s in ("TRTLLM 1.3", "torch"))
            assert own - bare == pytest.approx((2_097_152 + 2 * 524_288) * 4 / rate)

    @pytest.mark.parametrize(("width", "spilled"), [
        (64, 64 + 128 + 16 + 64 + 64 + 32 - 255),  # output, scores, queries, keys, values, others; of 255
        (128, 0),  # 64 + 16 + 16 + 32 + 32 + 32 fit
        (256, 128 + 16 + 32 + 64 + 64 + 32 - 255),
    ])  # fmt: skip
    def test_in_8_bits_on_ada_moves_the_registers_that_a_thread_lacks(self, width, spilled):
        machine, rows, keys = predictor("L40S", "fp8"), *((32, 128) if width <= 64 else (16, 32))
        moved = 2 * spilled * 4 * 32 / (4 * rows * keys * width)
        assert spilling_time(np.array(width), machine) == pytest.approx(
            moved / (142 * 2.52e9 * SPILLED_BYTES_PER_CYCLE)
        )

    def test_keeps_whole_heads_in_registers_only_there(self):
        own = columns(**PROMPT, software="TRTLLM 1.3")
        assert is_untiled(own, predictor("L40S", "fp8"))
        assert not is_untiled(own, predictor("L40S"))
        assert not is_untiled(own, predictor("H100 SXM", "fp8"))
        assert not is_untiled(columns(**PROMPT, software="VLLM 0.24"), predictor("L40S", "fp8"))

    def test_a_window_is_a_second_edge_beyond_which_keys_are_computed(self):
        """512 tokens of a window of 128 attend to 112 keys on average: (512·128 − 128²/2) / 512."""
        whole, near = (attention_operator(columns(**PROMPT | {"tokens": 512, "window": w})) for w in (0, 128))
        assert (whole.keys, whole.edges) == (256, 1)
        assert (near.keys, near.edges) == (112, 2)


class TestAProduct:
    @pytest.mark.parametrize(("accelerator", "software", "precision", "m", "factor"), [
        ("B200 SXM", "VLLM 0.24.0", "fp8_block", 4097, PACKING),
        ("B200 SXM", "VLLM 0.24.0", "fp8_block", 4100, 1.0),  # rows in fours need no padding
        ("B200 SXM", "VLLM 0.24.0", "fp8", 4097, 1.0),
        ("B200 SXM", "TRTLLM 1.3", "fp8_block", 4097, 1.0),
        ("H100 SXM", "VLLM 0.24.0", "fp8_block", 4097, 1.0),
    ])  # fmt: skip
    def test_waits_longer_for_its_host_if_its_rows_are_padded(self, accelerator, software, precision, m, factor):
        asked = columns(m=m, n=4096, k=4096, software=software, precision=precision)
        assert host_factor(asked, predictor(accelerator, precision)) == factor


LATENT = {"batch": 2, "tokens": 1024, "heads": 8}


class TestALatentAttention:
    def test_alone_is_that_of_the_operator(self):
        own = columns(**LATENT, software="TRTLLM 1.3")
        assert latent_attention_time(own, predictor()) == operator_time(latent_attention_operator(own), predictor())
        assert not has_expansion(own)

    def test_is_expanded_by_one_library(self):
        """2048 tokens · 512 · 8 heads · 256 entries of keys and values; nothing is padded on Hopper."""
        own = columns(**LATENT, software="VLLM 0.14.0")
        made = expansion_operator(own)
        assert (made.m, made.n, made.k, made.flops) == (2048, 2048, 512, 2 * 2048 * 2048 * 512)
        assert made.read + made.written == 2 * (2 * 2048 * 512 + 2048 * 2048)
        copied = 16_384 * 2 * (128 + 192)
        assert copied_bytes(own, False) == copied
        alone = operator_time(latent_attention_operator(own), predictor()) + operator_time(made, predictor())
        bandwidth = predictor().rates.streams.bandwidth
        assert latent_attention_time(own, predictor()) == pytest.approx(alone + copied / bandwidth)
        assert has_expansion(own)

    def test_pads_values_where_its_attention_needs_them_as_wide_as_keys(self):
        """Joined keys 128 + 192 entries for each row, padded values 128 + 192, outputs cut and put in place 4 · 128."""
        own, a100 = columns(**LATENT, software="VLLM 0.14.0"), predictor("A100 SXM 80GB")
        assert copied_bytes(own, True) == 16_384 * 2 * 1152
        wide = latent_attention_operator(own, 192)
        assert wide.flops / latent_attention_operator(own).flops == pytest.approx(384 / 320)
        parts = operator_time(wide, a100) + operator_time(expansion_operator(own), a100)
        copied = 16_384 * 2 * 1152 / a100.rates.streams.bandwidth
        assert latent_attention_time(own, a100) == pytest.approx(parts + copied)


class TestACollective:
    @pytest.mark.parametrize(("name", "share"), [("alltoall", 1.0), ("all_gather", 0.5), ("all_reduce", 0.5)])
    def test_also_moves_the_own_share(self, name, share, monkeypatch):
        size = 2**28
        asked = columns(collective=name, accelerators=4, elements=size // 2, element="half")
        own = collective_time(asked, predictor())
        monkeypatch.setattr("amped.measured_kernels.kinds.OWN_SHARE", {})
        links = predictor().network.inside.bandwidth
        assert own - collective_time(asked, predictor()) == pytest.approx(share * size / 4 / links)


class TestAMixtureLayer:
    def test_gathers_rows_no_faster_than_its_cores_can(self):
        own = predictor("B200 SXM")
        gathered = own.core_bandwidth.item()
        bandwidth = own.rates.streams.bandwidth.item()
        assert gathered < bandwidth
        slow = experts_time(columns(**LAYER), own)
        fast = experts_time(columns(**LAYER), dataclasses.replace(own, frequency=np.inf))
        # 4096 tokens are read and written once, their 8192 visits thrice at this width, and thrice at 2048
        passed = 2 * (2 * 4096 * 4096 + 3 * 8192 * 4096 + 3 * 8192 * 2048)
        assert slow - fast == pytest.approx(passed / gathered - passed / bandwidth, rel=1e-6)

    def test_finds_all_in_a_cache_in_which_it_fits(self):
        """A narrow layer of L40S fits in its 96 MiB: memory moves nothing, and cores move 10 bytes a cycle."""
        own, narrow = (
            predictor("L40S"),
            LAYER | {"tokens": 512, "dimensionality": 1024, "expert_feedforward_dimension": 512},
        )
        in_cache, in_memory = (experts_time(columns(**narrow), dataclasses.replace(own, cache=c)) for c in (1e9, 0.0))
        passed = 2 * (2 * 512 * 1024 + 3 * 1024 * 1024 + 3 * 1024 * 512)
        saved = passed / own.rates.streams.bandwidth - passed / own.core_bandwidth
        assert in_memory - in_cache >= saved * (1 - 1e-9)

    @pytest.mark.parametrize("exponent", [1.01, 1.2])
    @pytest.mark.parametrize("experts", [128, 256])
    @pytest.mark.parametrize("ranks", [1, 2, 8, 32])
    def test_its_fullest_rank_has_as_much_as_in_drawn_loads(self, ranks, experts, exponent):
        """Loads are drawn from 1 to 0.8 of 4096 tokens, with a density that falls with the exponent."""
        drawn = np.random.default_rng(1).random((4000, experts))
        loads = (((0.8 * 4096) ** (1 - exponent) - 1) * drawn + 1) ** (1 / (1 - exponent))
        parts = loads.reshape(4000, ranks, -1).sum(axis=2)
        there = np.mean(parts.max(axis=1) / parts.mean(axis=1))
        number = [np.array([float(value)]) for value in (4096, experts, ranks)]
        assert fullest_share(*number, exponent) == pytest.approx(there, rel=0.1)

    def test_visits_move_only_if_they_want_more_groups_than_are_allowed(self):
        """4 visits reach at most 4 groups. 5 visits reach 5 in 8·7·6·5·4 of 8⁵ cases, and then one of them moves."""
        assert sum(moved_visits(4)) == 0
        assert sum(moved_visits(5)) == pytest.approx(8 * 7 * 6 * 5 * 4 / 8**5)

    def test_all_that_may_not_visit_crowd_the_first_experts(self):
        """8 visits of 512 tokens want one of each 8 of 64 experts; 4 remain, on the first 32 experts, which are 4 ranks."""
        wanted = LAYER | {"tokens": 512, "number_of_experts": 64, "experts_per_token": 8, "kernel": "min_latency"}
        for ranks, rows, reached in ((1, 512 * 4, 32), (2, 512 * 4, 32), (8, 512, 8)):
            own = columns(**wanted | {"expert_degree": ranks})
            load = limited_load(own, fullest_shares(own))
            assert (load.rows, load.crowded) == (rows, 4)
            assert load.groups == pytest.approx(reached)
            spread = spread_load(own, np.array([8.0]), 1.0, np.array([64 / ranks]))
            assert (spread.rows, spread.crowded) == (512 * 8 / ranks, 0)

    def test_of_low_latency_moves_rows_in_its_narrow_format(self):
        own = columns(**LAYER | {"kernel": "moe_torch_flow_min_latency"})
        load = limited_load(own, fullest_shares(own))
        # 4096 tokens of 4096 entries are read in 16 bits and written in 4; 8192 rows of them are read, activations of 2048
        # are written and read
        assert converted_bytes(load, 4096, 2048, 0.5) == 4096 * 4096 * 2.5 + 8192 * (4096 + 2 * 2048) * 0.5

    def test_on_memory_slower_than_cores_gathers_as_memory_does(self):
        own = predictor("L40S")
        assert experts_time(columns(**LAYER), own) == pytest.approx(
            experts_time(columns(**LAYER), dataclasses.replace(own, frequency=np.inf))
        )
