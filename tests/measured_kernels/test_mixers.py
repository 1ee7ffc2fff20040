"""Layers and scans of the newer networks: tables are read as they are, and their times are near the laws.

The rows in tests/data/layers are facts that ai-dynamo/aiconfigurator measured (30 of each library, drawn at random, and two
of inference); it has them under the Apache License 2.0.
"""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from amped.base.errors import FileError
from amped.calibration.kernel_errors import by_kind, kernel_errors, machine
from amped.calibration.kernels_left_out import kernels_left_out
from amped.measured_kernels.kernel_files import kernels_of, read_all
from amped.measured_kernels.kinds import host_factor_of_layer
from amped.measured_kernels.mixers import SPARSE, indexed_layer_time
from amped.tables.tables import Tables
from amped.theory.roofline.mixers import SPARSE_KERNELS
from tests.helpers.places import ROOT

FACTS = ROOT / "tests" / "data" / "layers"
# The most that the mean error of rows kept out may be, by the kind of kernel.
BOUNDS = {
    "gated_delta_net": {"gated_delta_scans": 0.15, "causal_convolutions": 0.15},
    "kimi_delta_attention": {"kimi_delta_scans": 0.15},
    "mamba2": {"causal_convolutions": 0.15},
    "sparse_attention_indexed": {"indexed_attention_layers": 0.20},
    "compressed_sparse_attention": {"compressed_sparse_attention_layers": 0.20},
    "heavily_compressed_attention": {"heavily_compressed_attention_layers": 0.20},
    "mixed_sparse_attention": {"block_sparse_attention_layers": 0.20},
    "hyper_connections": {"hyper_connections": 0.20},
}


@pytest.mark.parametrize("name", BOUNDS)
def test_times_of_a_sample_kept_out_are_near_the_law(name: str) -> None:
    (file,) = read_all(FACTS / f"{name}.csv")
    assert sum(file.left.values()) == 2
    errors = kernel_errors(file.kernels)
    found = {kind: error for kind, _, accelerator, _, error in by_kind(errors) if accelerator == "all"}
    assert found.keys() == BOUNDS[name].keys()
    assert {kind: error for kind, error in found.items() if error > BOUNDS[name][kind]} == {}


def test_columns_of_a_parquet_file_are_read_as_text_is(tmp_path: Path) -> None:
    parquet, csv = pytest.importorskip("pyarrow.parquet"), pytest.importorskip("pyarrow.csv")
    parquet.write_table(csv.read_csv(FACTS / "kimi_delta_attention.csv"), tmp_path / "kda_perf.parquet")
    (file,), (text,) = read_all(tmp_path / "kda_perf.parquet"), read_all(FACTS / "kimi_delta_attention.csv")
    assert file.read() == text.read()
    assert np.concatenate([k.times for k in file.kernels]) == pytest.approx(
        np.concatenate([k.times for k in text.kernels])
    )


def test_a_damaged_row_is_told_with_its_number(tmp_path: Path) -> None:
    lines = (FACTS / "hyper_connections.csv").read_text("utf-8").splitlines()
    third = lines[3].split(",")
    third[-1] = "-1"
    (tmp_path / "mhc.csv").write_text("\n".join([*lines[:3], ",".join(third), *lines[4:]]), "utf-8")
    with pytest.raises(FileError, match="row 3: column 'latency'"):
        read_all(tmp_path / "mhc.csv")


def test_layers_of_an_unknown_network_are_left_out_with_its_name(tmp_path: Path) -> None:
    text = (FACTS / "sparse_attention_indexed.csv").read_text("utf-8")
    (tmp_path / "dsa.csv").write_text(text.replace("DeepseekV32ForCausalLM", "Unheard"), "utf-8")
    (file,) = read_all(tmp_path / "dsa.csv")
    unknown = sum(number for why, number in file.left.items() if why.endswith("(Unheard)"))
    assert unknown > 0
    assert unknown + sum(file.read().values()) == 60


def test_each_kernel_of_a_table_has_numbers() -> None:
    assert {row for rows in SPARSE.values() for row in rows} <= SPARSE_KERNELS.keys()


def layer(kernel: str, cache: str, heads: int, rows: int) -> dict[str, Any]:
    """Columns of one layer of DeepSeek V3.2."""
    sizes = {"dimensionality": 7168, "query_rank": 1536, "latent_rank": 512, "key_width": 128, "rotated_width": 64, "value_width": 128,
             "index_heads": 64, "index_width": 128, "selected_keys": 2048}  # fmt: skip
    return {"software": ["VLLM 0.24.0"], "kernel": [kernel], "cache": [cache], "indexing": ["own"], "batch": [rows / 4096],
            "tokens": [4096], "heads": [heads], **{name: [value] for name, value in sizes.items()}}  # fmt: skip


def seconds(accelerator: str, *shape: Any) -> float:
    """The time of a layer by the law."""
    return float(indexed_layer_time(layer(*shape), machine(accelerator, "bfloat16", Tables()))[0])


def test_with_many_heads_keys_of_8_bits_are_read_by_the_kernel_for_16_bits() -> None:
    times = {
        heads: [seconds("H100 SXM", "FLASHMLA_SPARSE", cache, heads, 8192) for cache in ("bfloat16", "fp8")]
        for heads in (16, 32)
    }
    assert times[16][0] < times[16][1]
    assert times[32][0] == times[32][1]


def test_more_queries_than_a_grid_has_blocks_are_computed_in_parts_which_is_faster() -> None:
    fewer, more = (seconds("B200 SXM", "FLASHINFER_MLA_SPARSE", "bfloat16", 8, rows) for rows in (49152, 65536))
    assert more < fewer


def test_a_slow_host_launches_an_indexed_layer_later_but_not_what_a_graph_recorded() -> None:
    grace, x86 = (machine(name, "bfloat16", Tables()) for name in ("GB200", "B200 SXM"))
    asked = layer("FLASHMLA_SPARSE", "bfloat16", 32, 64)
    assert host_factor_of_layer(asked, x86) == 1.0 < host_factor_of_layer(asked, grace) < grace.host_time_factor
    assert host_factor_of_layer(asked | {"software": ["TRTLLM 1.3.0"]}, grace) == 1.0


def test_an_accelerator_is_left_out_with_the_libraries_of_its_kin() -> None:
    kernels = kernels_of(
        [*read_all(FACTS / "heavily_compressed_attention.csv"), *read_all(FACTS / "compressed_sparse_attention.csv")]
    )
    errors = kernels_left_out(kernels)
    assert {e.accelerator for e in errors} == {"B200", "GB200", "H100 80GB HBM3"}
    assert all(e.rows == e.kept_out for e in errors)
