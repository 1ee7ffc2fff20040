"""Whose kernel coefficients an accelerator takes that nobody measured: its nearest kin in features."""

import pytest

from amped.library import explain
from amped.tables.kin import (
    CLOCK,
    PRODUCTS,
    TIED,
    distance,
    features_of,
    in_doubt,
    measured,
    nearest,
    of_kin,
    own_kernels,
    steps,
)
from amped.tables.table_files import ACCELERATORS, shipped
from amped.tables.tables import Tables
from tests.helpers.culprits import for_each
from tests.helpers.tables import layered

TABLES = Tables()
FP8 = "fp8_gemm_sustained_fraction"
# What an expert would say, for each accelerator without a row of its own: the same die first, then the generation, then the maker.
CHOICES = {
    "P4": "P100", "P100 PCIe": "P100", "V100 SXM2 32GB": "V100 SXM2 16GB", "V100 PCIe": "V100 SXM2 16GB",
    "V100 PCIe 32GB": "V100 SXM2 16GB", "V100S PCIe 32GB": "V100 SXM2 16GB", "A100 PCIe 40GB": "A100 SXM 40GB",
    "A100 PCIe 80GB": "A100 SXM 80GB", "A800": "A100 SXM 80GB", "A30": "A100 SXM 40GB", "A10": "RTX A6000", "A40": "RTX A6000",
    "L4": "L40S", "L40": "RTX 4090", "RTX 6000 Ada": "L40S", "H100 NVL": "H100 PCIe", "H800 SXM": "H100 SXM",
    "GH200": "H100 SXM", "GH200 144GB": "H200 SXM", "B100": "B200 SXM", "RTX PRO 6000 Blackwell Server": "RTX 5090",
    "MI100": "MI250X", "MI210": "MI250X", "MI250": "MI250X", "MI300A": "MI300X", "MI350X": "MI325X", "MI355X": "MI325X",
    "TPU v2": "TPU v5e", "TPU v3": "TPU v5e", "TPU v7 Ironwood": "TPU v6e Trillium", "Trainium 2": "Trainium 1",
    "Trainium 3": "Trainium 1", "Ascend 910B3": "Ascend 910B", "Ascend 910B4": "Ascend 910B", "MTT S4000": "RTX 3090",
    "MTT S5000": "H20", "VR200": "B300",
    # For GB10 an expert would say RTX 5090, of the same matrix units; its power a FLOP is that of GB300.
    "GB10": "GB300", "Arc Pro B60": "RTX A6000", "MI455X": "MI325X",
    "L20": "RTX 4090", "A10G": "RTX 3090", "H200 NVL": "H200 SXM", "RTX PRO 6000 Blackwell Workstation": "RTX 5090",
    "MI308X": "MI300X", "MI440X": "MI325X", "MI430X": "MI325X", "Gaudi 1": "Gaudi 3", "TPU 8t": "TPU v6e Trillium",
    "Ascend 910C": "Ascend 910B", "Ascend 950PR": "Ascend 910B", "Ascend 950DT": "Ascend 910B",
}  # fmt: skip


def accelerator(name):
    return TABLES.row(ACCELERATORS, name)


def kin_of(name, column=""):
    return nearest(TABLES, accelerator(name), column).accelerator


def test_each_accelerator_without_a_row_has_an_expert_s_choice():
    assert {name for name in shipped(ACCELERATORS) if own_kernels(TABLES, accelerator(name)) is None} == CHOICES.keys()


@for_each(CHOICES)
def test_the_nearest_kin_is_what_an_expert_would_say(name):
    assert kin_of(name) == CHOICES[name]


@for_each(shipped(ACCELERATORS))
def test_a_distance_is_symmetric_and_zero_to_itself_but_for_what_is_not_stated(name):
    own, other = features_of(accelerator(name)), features_of(accelerator("H100 SXM"))
    assert distance(own, other) == pytest.approx(distance(other, own))
    is_whole = None not in (own.vendor, own.generation, own.width, own.memory, own.power, own.year)
    assert (distance(own, own) == 0) == is_whole


def test_the_steps_by_hand():
    """MI300X to MI325X: HBM3 to HBM3e, 750 W to 1,000 W for the same peak, one year."""
    found = steps(features_of(accelerator("MI300X")), features_of(accelerator("MI325X")))
    assert found.pop("power a peak FLOP/s") == pytest.approx(0.415, abs=0.001)
    assert {name: step for name, step in found.items() if step} == {"kind of memory": 0.25, "year": 0.25}


def test_a_format_at_the_rate_of_a_wider_one_is_none_of_the_matrix_unit_s():
    assert features_of(accelerator("Trainium 1")).formats == {"bf16"}
    assert features_of(accelerator("MI355X")).formats == {"bf16", "fp8", "fp4"}


def test_a_share_of_fp8_is_to_that_of_bf16_as_on_the_kin():
    """MI355X has the products of MI325X, and no fp8 of AMD is known: what GB300's fp8 is to its bf16."""
    kernels, kin = nearest(TABLES, accelerator("MI355X")).kernels, nearest(TABLES, accelerator("MI355X"), FP8)
    assert {FP8} <= set(in_doubt(accelerator("MI355X"), kernels)) <= {*TIED}
    ratio = kin.kernels.columns[FP8] / kin.kernels.columns[PRODUCTS]
    assert of_kin(kernels, kin, FP8) == pytest.approx(ratio * kernels.columns[PRODUCTS])


def test_a_clock_comes_only_from_where_it_was_fitted_and_belongs_to_the_kin_s_row():
    assert all(CLOCK in own_kernels(TABLES, row).fitted for row in measured(TABLES, CLOCK))
    told = explain(CLOCK, accelerator="RTX 4090")
    assert "taken from RTX 5090, nearest in vendor's software" in told.where


@for_each(["MI300X", "Gaudi 2", "TPU v5p", "Trainium 1", "V100 SXM2 16GB", "Ascend 910B"])
def test_where_products_were_timed_in_long_runs_the_clock_is_in_them(name):
    kernels = own_kernels(TABLES, accelerator(name))
    assert kernels.columns[CLOCK] == 1
    assert CLOCK not in in_doubt(accelerator(name), kernels)


def test_an_accelerator_of_one_s_own_finds_its_kin_by_what_it_states(tmp_path):
    mine = {
        "vendor": "NVIDIA",
        "architecture": "Hopper GH100",
        "memory_type": "HBM3",
        "bf16_peak_flop_rate": "800 TFLOP/s",
    }
    tables = layered(tmp_path, {ACCELERATORS: {"Mine": mine}})
    assert nearest(tables, tables.row(ACCELERATORS, "Mine")).accelerator == "H100 SXM"
