"""Layers and scans of the newer networks: tables are read as they are, and their times are near the laws.

The rows in tests/data/layers are facts that ai-dynamo/aiconfigurator measured (30 of each library, drawn at random, and two
of inference); it has them under the Apache License 2.0.
"""

from pathlib import Path

import numpy as np
import pytest

from amped.base.errors import FileError
from amped.calibration.kernel_errors import by_kind, kernel_errors
from amped.calibration.kernels_left_out import kernels_left_out
from amped.measured_kernels.kernel_files import kernels_of, read_all
from amped.measured_kernels.mixers import SPARSE
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


def test_an_accelerator_is_left_out_with_the_libraries_of_its_kin() -> None:
    kernels = kernels_of(
        [*read_all(FACTS / "heavily_compressed_attention.csv"), *read_all(FACTS / "compressed_sparse_attention.csv")]
    )
    errors = kernels_left_out(kernels)
    assert {e.accelerator for e in errors} == {"B200", "GB200", "H100 80GB HBM3"}
    assert all(e.rows == e.kept_out for e in errors)
