"""Linear attention, sparse attention and hyper-connections, worked out on paper."""

import numpy as np
import pytest

from amped.theory.nouns import mixer_work as work
from amped.theory.nouns.mixer_records import Cores, ScanKernel
from amped.theory.roofline import mixers

# 10 cores of 1 GHz, 1 PFLOP/s, 1 TB/s.
CORES = Cores(number=10.0, frequency=1e9, flop_rate=1e15, bandwidth=1e12)


def counted_delta_rule(tokens: int, key: int, value: int, chunk: int) -> float:
    """The operations of a gated delta rule, its multiply-adds counted one product after another for one head."""
    inverse = sum(row - column for column in range(chunk) for row in range(column + 1, chunk))
    products = (
        chunk * chunk * key,  # keys meet keys
        inverse,  # an entry of the inverse sums over the rows between it and the diagonal
        chunk * chunk * key,  # the inverse multiplies keys …
        chunk * chunk * value,  # … and values
        chunk * key * value,  # the state corrects values
        chunk * chunk * key,  # queries meet keys
        chunk * chunk * value,  # scores multiply values
        chunk * key * value,  # queries read the state
        chunk * key * value,  # keys add to it
    )
    return 2 * sum(products) * tokens / chunk


def test_a_gated_delta_rule_on_paper() -> None:
    """4,096 tokens, 1 head of 128 and 128, chunks of 64.

    For a token: 64·(6·128 + 4·128) = 81,920 in its chunk, 6·128·128 = 98,304 for the state, 64²/3 = 1,365 for the
    inverse: 181,589.
    """
    assert work.delta_rule_flops(4096, 1, 128, 128, 64) == pytest.approx(4096 * 181_589.33, rel=1e-6)
    assert work.delta_rule_flops(4096, 1, 128, 128, 64) == pytest.approx(
        counted_delta_rule(4096, 128, 128, 64), rel=1e-3
    )
    # Twice as much backward, and what is computed again: 64·2·256 + 4·128·128 = 98,304 for a token.
    backward = work.delta_rule_backward_flops(4096, 1, 128, 128, 64)
    assert backward == pytest.approx(4096 * (2 * 181_589.33 + 98_304), rel=1e-6)


def test_the_bytes_of_a_gated_delta_net_on_paper() -> None:
    """One token of 2 heads that share a key, 128 wide, chunks of 64.

    For a head: queries and keys 128 B each, moved twice: 512; scores 64·6 B twice: 768; corrected keys 256 B twice: 512;
    values, corrected values and outputs 256 B seven times: 1,792; states 512 B twice: 1,024. Together 4,608 B.
    """
    moved, held = work.gated_delta_bytes(1, 2, 1, 128, 128, 64)
    assert moved == 2 * (512 + 768 + 512 + 1792 + 1024)
    assert held == 2 * (256 + 384 + 256 + 1024 + 512)


def test_a_state_space_dual_on_paper() -> None:
    """One token of 4 heads of 64, state 128, 2 groups, chunks of 256.

    Groups: 2·2·256·128 = 131,072. Heads: 4·(2·256·64 + 4·128·64) = 4·65,536 = 262,144.
    """
    assert work.state_space_flops(1, 4, 64, 128, 2, 256) == 131_072 + 262_144
    # Inputs (2·4·64 + 4·2·128 + 8)·2 B = 3,088; outputs 512 B; scores 2·2·256·4 B = 4,096; states 4·4·64·128·4/256 B = 2,048.
    assert work.state_space_bytes(1, 4, 64, 128, 2, 256) == 3088 + 512 + 4096 + 2048


def test_a_convolution_on_paper() -> None:
    """1,000 tokens of 6,144 channels, 4 taps: 8 operations for an entry, and 4 bytes."""
    assert work.convolution_flops(1000, 6144, 4) == 8 * 6_144_000
    assert work.convolution_bytes(1000, 6144) == 4 * 6_144_000


@pytest.mark.parametrize(
    ("tokens", "most", "each"), [(4096, 2048, 1), (1024, 2048, 1), (4096, 512, 4), (4096, np.inf, 128)]
)
def test_keys_of_a_causal_sequence_are_those_that_a_loop_counts(tokens: int, most: float, each: int) -> None:
    counted = np.mean([min((query + 0.5) / each, most) for query in range(tokens)])
    assert work.causal_keys(tokens, most, each) == pytest.approx(counted, rel=1e-3)


def test_an_attention_and_its_indexer_on_paper() -> None:
    """One query of 16 heads, 192 and 128 wide, with 100 keys; and an indexer of 64 heads of 128 that scores 1,000."""
    assert work.attended_flops(1, 16, 192, 128, 100) == 2 * 16 * 320 * 100
    assert work.indexer_flops(1, 64, 128, 1000) == 16_384_000


def test_a_hyper_connection_on_paper() -> None:
    """One token of 4 streams of 1,000, 20 iterations.

    Before: 2·4,000·24 = 192,000 for the weights, 4·20·16 = 1,280 for the iterations, 2·4,000 for the sum.
    After: 2·4,000·5. Bytes: 9 times 1,000 entries of 2 bytes on both sides.
    """
    before, after = work.connection_flops(1, 1000, 4, 20)
    assert (before, after) == (192_000 + 1_280 + 8_000, 40_000)
    assert work.connection_bytes(1, 1000, 4) == (18_000, 18_000)


def test_a_scan_on_paper() -> None:
    """2 sequences of 128 tokens, 4 heads, on 10 cores: 8 states for 10 cores, so that one wave hands 2 chunks on.

    1e6 operations at 100 in a cycle of 10 cores take 1 us, 3e6 bytes 3 us: (1 + 81)^¼ = 3.009 us beside one another.
    2 chunks of 500 cycles take 1 us.
    """
    kernel = ScanKernel(chunk=64, flops=100, step=500, carried=1, stores=1)
    time = mixers.scan_time(kernel, 2.0, 128.0, 4.0, 1e6, 3e6, 3e6, CORES)
    assert time == pytest.approx(82**0.25 * 1e-6 + 1e-6)
    # 40 states are four waves; backward, states are handed on twice.
    four = mixers.scan_time(kernel, 10.0, 128.0, 4.0, 1e6, 3e6, 3e6, CORES, sweeps=2.0)
    assert four == pytest.approx(82**0.25 * 1e-6 + 8e-6)


def test_a_linear_layer_is_linear_in_the_context() -> None:
    """With as many sequences as fill the cores, twice the tokens take twice the time."""
    of_length = [
        mixers.scan_time(mixers.GATED_DELTA, 64.0, n, 16.0, n * 1e6, n * 1e4, n * 1e4, CORES) for n in (8192.0, 16384.0)
    ]
    assert of_length[1] == pytest.approx(2 * of_length[0])


def test_a_selection_of_all_keys_is_dense_plus_its_indexer() -> None:
    assert work.causal_keys(2048, 2048) == work.causal_keys(2048, np.inf) == 1024
    dense = work.attended_flops(2048, 16, 576, 512, work.causal_keys(2048, np.inf))
    assert work.attended_flops(2048, 16, 576, 512, work.causal_keys(2048, 4096)) == dense
