"""`amped check-tables`: the shipped rows pass, and each kind of bad row is refused with row and column."""

import json

import pytest

from amped.base.errors import TableError
from amped.estimation.table_check import table_problems
from amped.tables.tables import Tables
from amped.theory.language.catalogue import catalogue

SOURCE = {"sources": ["a datasheet"]}
PEAK = {"frequency": "1 GHz", "number_of_cores": 10, "functional_units_per_core": 4, "mac_per_cycle_per_unit": 512}


def tables(tmp_path, content):
    path = tmp_path / "mine.json"
    path.write_text(json.dumps(content))
    return Tables((path,))


def problems(tmp_path, table, **rows):
    found = table_problems(tables(tmp_path, {table: rows}), catalogue(), shipped_too=False)
    return {problem.where: f"{problem.what} / {problem.advice}" for problem in found}


def test_every_shipped_row_passes():
    assert list(table_problems(Tables(), catalogue())) == []


def test_all_reference_rows_are_there():
    known = Tables()
    counts = {table: len(known.names(table)) for table in known.all_names()}
    assert counts == {
        "accelerator_specifications": 84, "transformer_network_parameters": 230, "system_specifications": 128,
        "link_specifications": 50, "kernel_efficiencies": 46, "software_specifications": 40,
    }  # fmt: skip


@pytest.mark.parametrize(
    ("row", "column", "told"),
    [
        ({"bf16_peak_flop_rate": "81.9 TFLOP/s", "mac_precision": "bf16"}, "bf16_peak_flop_rate", "the sparse peak"),
        ({"fp16_peak_flop_rate": "60 TFLOP/s"}, "fp16_peak_flop_rate", "1.46 times what clock"),
        ({"memory_capacity": 80e9}, "memory_capacity", "has no unit"),
        ({"memory_capacity": "80 GB/s"}, "memory_capacity", "is not a unit of memory"),
        ({"memory_bandwith": "2 TB/s"}, "memory_bandwith", "did you mean 'memory_bandwidth'"),
        ({"l2_cache": "40 MHz"}, "l2_cache", "is not a unit of memory"),
        ({"release_year": "soon"}, "release_year", "'soon' is not a whole number"),
        ({"kernel_efficiencies": 3}, "kernel_efficiencies", "3 is not the name of a row"),
        ({"unverified": ["nothing"]}, "unverified", "'nothing' is doubted and not there"),
        ({"aliases": ["A100"]}, "aliases", "is a name of 'A100 SXM 80GB' too"),
        ({"aliases": ["Mine too", "mine-too"]}, "aliases", "stands 2 times"),
        ({"sources": []}, "sources", "no source"),
    ],
)
def test_a_bad_accelerator_is_told_with_row_and_column(tmp_path, row, column, told):
    found = problems(tmp_path, "accelerator_specifications", Mine=SOURCE | PEAK | row)
    where = f"accelerator_specifications, row 'Mine', column '{column}'"
    assert told in found.pop(where)
    assert found == {}


@pytest.mark.parametrize(
    ("row", "column", "told"),
    [
        ({"scale_up_link": "NVLink 4", "inter_accelerator_bandwidth": "900 GB/s"}, "inter_accelerator_bandwidth",
         "twice the 450 GB/s"),
        ({"scale_out_link": "IB NDR", "bandwidth_per_network_card": "800 Gbit/s"}, "bandwidth_per_network_card",
         "write the bandwidth of one direction"),
        ({"accelerator": "H1000"}, "accelerator", "did you mean"),
        ({"scale_up_link": "NVLink 9", "inter_accelerator_bandwidth": "1 TB/s"}, "scale_up_link", "has no row 'NVLink 9'"),
    ],
)  # fmt: skip
def test_a_bad_system_is_told_with_row_and_column(tmp_path, row, column, told):
    found = problems(tmp_path, "system_specifications", Mine=SOURCE | row)
    assert told in found.pop(f"system_specifications, row 'Mine', column '{column}'")
    assert found == {}


@pytest.mark.parametrize(
    ("row", "column", "told"),
    [
        ({"kernel_overhead_time": 3e-6}, "kernel_overhead_time", "has no unit"),
        ({"kernel_overhead_time": "3 us/s"}, "kernel_overhead_time", "is not a unit of time"),
        ({"gemm_sustained_fraction": 1.2}, "gemm_sustained_fraction", "is above 1.05"),
        ({"gemm_sustained_share": 0.8}, "gemm_sustained_share", "did you mean 'gemm_sustained_fraction'"),
        ({"unverified": ["gemm_depth"]}, "unverified", "'gemm_depth' is doubted and not there"),
    ],
)
def test_a_bad_row_of_kernel_efficiencies_is_told_with_row_and_column(tmp_path, row, column, told):
    found = problems(tmp_path, "kernel_efficiencies", Mine=SOURCE | {"extends": "Hopper"} | row)
    assert told in found.pop(f"kernel_efficiencies, row 'Mine', column '{column}'")
    assert found == {}


def test_a_row_of_kernel_efficiencies_has_every_coefficient_or_extends_one_that_has(tmp_path):
    found = problems(tmp_path, "kernel_efficiencies", Mine=SOURCE | {"gemm_sustained_fraction": 0.5})
    lacking = {c for c in Tables().row("kernel_efficiencies", "default").columns if c in catalogue()}
    lacking -= {"gemm_sustained_fraction"}
    assert {where.split("'")[3] for where in found} == lacking
    assert set(found.values()) == {"is missing / extend a row that has it, 'default' for one"}


def test_an_accelerator_s_row_of_kernel_efficiencies_is_there(tmp_path):
    row = SOURCE | {"extends": "H100 SXM", "kernel_efficiencies": "Hoper"}
    found = problems(tmp_path, "accelerator_specifications", Mine=row)
    assert found.keys() == {"accelerator_specifications, row 'Mine', column 'kernel_efficiencies'"}
    assert "did you mean 'Hopper'" in next(iter(found.values()))


def test_a_wrong_parameter_count_is_told_with_the_right_one(tmp_path):
    row = SOURCE | {"extends": "GPT-2 small", "parameters_computed": 124_000_000}
    found = problems(tmp_path, "transformer_network_parameters", Mine=row)
    where = "transformer_network_parameters, row 'Mine', column 'parameters_computed'"
    assert found.keys() == {where}
    assert "is not the 124439808 that the shape has" in found[where]


def test_rows_that_extend_in_a_circle_are_refused(tmp_path):
    rows = {"One": SOURCE | {"extends": "Two"}, "Two": SOURCE | {"extends": "One"}}
    found = problems(tmp_path, "accelerator_specifications", **rows)
    assert found.keys() == {f"accelerator_specifications, row '{n}', column 'extends'" for n in rows}
    assert "One ← Two ← One" in next(iter(found.values()))


def test_a_row_extends_a_shipped_one_in_three_lines(tmp_path):
    row = {"extends": "H100 SXM", "memory_capacity": "141 GB", "memory_bandwidth": "4.8 TB/s", **SOURCE}
    known = tables(tmp_path, {"accelerator_specifications": {"Mine": row}})
    assert list(table_problems(known, catalogue())) == []
    mine = known.row("accelerator_specifications", "mine")
    assert mine.column("memory_capacity") == "141 GB"
    assert mine.column("number_of_cores") == 132
    assert "memory_capacity" not in mine.inherited
    assert mine.sources[0] == "a datasheet"
    assert mine.aliases == ()


def test_a_row_may_overrule_the_shipped_one_of_its_own_name(tmp_path):
    row = {"extends": "H100 SXM", "accelerator_price": "2 USD/hour"}
    known = tables(tmp_path, {"accelerator_specifications": {"H100 SXM": row}})
    assert known.row("accelerator_specifications", "H100 SXM").column("frequency") == "1.83 GHz"


def test_a_row_that_extends_nothing_says_who_needed_it(tmp_path):
    known = tables(tmp_path, {"accelerator_specifications": {"Mine": {"extends": "H10 SXM"}}})
    with pytest.raises(TableError, match=r"no row 'H10 SXM', which 'Mine' extends") as caught:
        known.row("accelerator_specifications", "Mine")
    assert "did you mean" in str(caught.value)


def test_a_clock_of_its_own_takes_the_place_of_the_peaks_inherited(tmp_path):
    import amped

    path = tmp_path / "mine.json"
    path.write_text(json.dumps({"accelerator_specifications": {"Slow": {"extends": "A100", "frequency": "705 MHz"}}}))
    slow = amped.estimate(accelerator="Slow", lookup_tables=path)
    assert slow["matrix_peak_flop_rate"] == 2 * 705e6 * 108 * 4 * 256
    assert slow.choices["matrix_precision"] == "fp16"
