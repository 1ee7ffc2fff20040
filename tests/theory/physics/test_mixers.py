"""Kernels of linear and sparse attention: what physics says of any accelerator and shape."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from amped.theory.nouns import mixer_work as work
from amped.theory.nouns.mixer_records import Cores
from amped.theory.roofline import mixers

SCANS = (mixers.GATED_DELTA, mixers.KIMI_DELTA, mixers.FUSED_GATED_DELTA, mixers.FUSED_KIMI_DELTA, mixers.STATE_SPACE)
MACHINES = st.builds(
    Cores,
    number=st.floats(10, 300),
    frequency=st.floats(5e8, 3e9),
    flop_rate=st.floats(1e13, 5e15),
    bandwidth=st.floats(1e11, 1e13),
)
BETTER = ("number", "frequency", "flop_rate", "bandwidth")


def times(cores: Cores, sequences: float, tokens: float, heads: float) -> list[float]:
    """The times of all laws for one shape."""
    rows = sequences * tokens
    flops = work.delta_rule_flops(rows, heads, 128, 128, 64)
    moved, held = work.gated_delta_bytes(rows, heads, heads, 128, 128, 64)
    layers = [
        mixers.attended_time(kernel, work.attended_flops(rows, heads, 576, 512, work.causal_keys(tokens, 2048)), cores)
        + mixers.besides_time(kernel, rows, rows * heads * 576, 2.0, cores)
        + mixers.indexing_time(kernel, rows * work.causal_keys(tokens, float("inf")), 64, cores)
        for kernel in mixers.SPARSE_KERNELS.values()
    ]
    return [
        *(mixers.scan_time(kernel, sequences, tokens, heads, flops, moved, held, cores) for kernel in SCANS),
        *layers,
        mixers.convolution_time(work.convolution_bytes(rows, heads * 128), 1.0, cores),
        mixers.connection_time(work.connection_bytes(rows, 4096, 4)[0], rows, 20, cores),
    ]


SHAPES = st.tuples(st.integers(1, 64), st.integers(64, 65536), st.integers(1, 128))


@given(MACHINES, SHAPES, st.sampled_from(BETTER), st.floats(1.0, 4.0))
def test_a_better_accelerator_is_never_slower(
    cores: Cores, shape: tuple[int, int, int], name: str, factor: float
) -> None:
    fields = {field: getattr(cores, field) for field in BETTER}
    better = Cores(**{**fields, name: fields[name] * factor})
    assert all(b <= a * (1 + 1e-9) for a, b in zip(times(cores, *shape), times(better, *shape), strict=True))


@given(MACHINES, SHAPES)
def test_more_tokens_take_longer(cores: Cores, shape: tuple[int, int, int]) -> None:
    sequences, tokens, heads = shape
    longer = times(cores, sequences, tokens + 64, heads)
    assert all(b >= a for a, b in zip(times(cores, *shape), longer, strict=True))


@given(st.integers(64, 65536), st.integers(1, 4096), st.integers(1, 4096))
def test_more_selected_keys_are_never_fewer_and_none_exceeds_the_past(tokens: int, most: int, more: int) -> None:
    few, many = work.causal_keys(tokens, most), work.causal_keys(tokens, most + more)
    assert few <= many <= work.causal_keys(tokens, float("inf")) == tokens / 2


@pytest.mark.parametrize("each", [4, 128])
def test_compressed_keys_are_fewer_by_their_ratio(each: int) -> None:
    assert work.causal_keys(8192, float("inf"), each) == pytest.approx(work.causal_keys(8192, float("inf")) / each)
