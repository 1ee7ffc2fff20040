"""Exchanges of tokens between experts by kernels of their own: tables as they are, and the law by hand."""

from pathlib import Path

import numpy as np
import pytest

import amped
from amped.base.errors import FileError
from amped.calibration.kernel_errors import machine, predicted
from amped.measured_kernels import exchanges
from amped.tables.tables import user_tables
from amped.theory.links.dispatchers import DEEPEP, exchange_time
from amped.theory.nouns.link_records import Link, Links
from amped.theory.nouns.records import Collective, Group

# Four rows of ai-dynamo/aiconfigurator's table of DeepEP on H100, and three of TensorRT-LLM's in a rack (Apache-2.0).
DEEP = {
    "device": ["NVIDIA H100 80GB HBM3"] * 4, "framework": ["sglang"] * 4, "version": ["0.5.12"] * 4, "op_name": ["normal"] * 4,
    "node_num": [1] * 4, "hidden_size": [7168, 4096, 2048, 7168], "num_token": [16384] * 4, "num_topk": [8, 6, 8, 8],
    "num_experts": [256, 256, 128, 256], "dispatch_sms": [4, 4, 4, 8], "dispatch_transmit_us": [8193.5, 4793.1, 4380.6, 4526.8],
    "combine_sms": [4, 4, 4, 8], "combine_transmit_us": [15210.3, 7627.0, 4875.9, 7760.0],
}  # fmt: skip
RACK = {
    "device": ["NVIDIA GB200"] * 3, "framework": ["TRTLLM"] * 3, "version": ["1.2.0rc6"] * 3, "kernel_source": ["NVLinkTwoSided"] * 3,
    "op_name": ["alltoall_dispatch", "alltoall_combine", "alltoall_prepare"], "moe_dtype": ["bfloat16"] * 3,
    "num_tokens": [16384] * 3, "hidden_size": [7168] * 3, "topk": [8] * 3, "num_experts": [256] * 3, "moe_ep_size": [8] * 3,
    "latency": [2.782, 3.2207, 0.1301],
}  # fmt: skip


@pytest.mark.parametrize(("table", "read", "left"), [(DEEP, 8, 0), (RACK, 2, 1)])
def test_a_table_is_read_as_it_is_and_its_times_are_near_the_law(
    table: dict[str, list[object]], read: int, left: int
) -> None:
    found = exchanges.read_columns(
        {name: np.array(column) for name, column in table.items()}, Path("exchanges.parquet")
    )
    kernels = found.kernels()
    assert sum(map(len, kernels)) == read
    assert sum(found.left.values()) == left
    for k in kernels:
        law = predicted(k, machine(k.accelerator, "bfloat16", user_tables(None))).law
        assert law == pytest.approx(k.times, rel=0.3)


def test_a_damaged_row_is_told_with_its_number() -> None:
    table = {**RACK, "latency": [1.0, 0.0, 1.0]}
    with pytest.raises(FileError, match="row 2: column 'latency'"):
        exchanges.read_columns(table, Path("exchanges.parquet"))


def test_the_law_by_hand() -> None:
    """1,000 tokens with 2 copies of 1,000 bytes on 10 cores; links of 1 TB/s: the cores send for 23 us, the links take 2."""
    link = Link("it", bandwidth=1e12, latency=5e-6, ramp=0.0)
    network = amped.estimate("default").results.cells["network"][0][0]
    plain = Links("plain", network.times, (), 1e-5, link, link, 1.0, 1.0)
    sent = Collective("it", "all_to_all", np.array(2e6), Group("experts", np.array(1e9), np.array(1.0)), 1.0)
    work = (1000 * (0.446e-6 + 2 * 0.0778e-6) + 2e6 * 37.4e-12) / 10
    time = exchange_time(DEEPEP["expert_dispatch"], sent, 1000, 2, 10, 1e-6, 1.0, plain)
    assert time == pytest.approx(32e-6 + (work**4 + (2e6 / 1e12) ** 4) ** 0.25, rel=1e-3)


MIXTURE = {"model": "Qwen3 30B-A3B", "system": "DGX H100", "number_of_accelerators": 8, "expert_parallel_degree": 8, "context": 4096,
           "data_parallel_degree": 8, "tensor_parallel_degree": 1, "pipeline_parallel_degree": 1, "microbatch_size": 1, "batch_size": 64,
           "dispatcher": "deepep", "zero_stage": 1}  # fmt: skip


@pytest.mark.thorough
def test_more_cores_send_faster_until_the_links_are_full() -> None:
    times = []
    for share in (0.05, 0.1, 0.2, 0.9):
        e = amped.estimate(**MIXTURE, expert_exchange_processor_fraction=share)
        times.append(float(e.results.records("expert_durations")[0].time))
    assert times == sorted(times, reverse=True)
    assert times[0] / times[1] > 1.7
    assert times[2] / times[3] < 2.0
