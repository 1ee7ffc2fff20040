"""Machines of 2026: no accelerator is answered on another vendor's network, and what sources contradict is told."""

import pytest

import amped
from amped.base.errors import ResolveError
from amped.tables.table_files import ACCELERATORS, PEAKS, SYSTEMS
from amped.tables.tables import Tables, system_built_with
from tests.helpers.culprits import for_each

PRELIMINARY = {
    "VR200": "2026-03-16", "MI455X": "2026-01-05", "MI440X": "2026-01-05", "MI430X": "2026-01-05",
    "Ascend 950PR": "2025-09-18", "Ascend 950DT": "2025-09-18", "TPU 8t": "2026-04-22",
}  # fmt: skip
# Rows whose peaks the maker has not published, or whose sources contradict one another.
WITHOUT_PEAKS = ("MI308X", "Gaudi 1")


@for_each(Tables().names(ACCELERATORS))
def test_an_accelerator_has_a_system_of_its_own_and_so_is_answered_on_no_other_makers_network(name):
    tables = Tables()
    accelerator = tables.row(ACCELERATORS, name)
    system = tables.row(SYSTEMS, str(system_built_with(name, tables)))
    assert system.column("accelerator") in (accelerator.name, *accelerator.ancestors)
    assert accelerator.columns.get("preliminary") == system.columns.get("preliminary") == PRELIMINARY.get(name)


def test_a_whole_trn3_ultraserver_has_the_peaks_bandwidths_and_memory_that_its_vendor_adds_up():
    tables = Tables()
    chip, large = tables.row(ACCELERATORS, "trn3"), tables.row(SYSTEMS, "Trn3 Gen2 UltraServer")
    chips = large.column("number_of_accelerators_per_node")
    assert chips * float(chip.column("bf16_peak_flop_rate").split()[0]) == pytest.approx(96_624)  # TFLOP/s
    assert chips * float(chip.column("memory_capacity").split()[0]) == 20_736  # GiB
    network = large.column("number_of_network_cards_per_node") * 200
    assert large.column("bandwidth_per_network_card") == "200 Gbit/s"
    assert network == 28_800  # Gbit/s


@pytest.mark.parametrize("name", [*PRELIMINARY, *WITHOUT_PEAKS])
def test_peaks_that_are_left_empty_are_told_with_what_can_be_asked(name):
    with pytest.raises(ResolveError) as refusal:
        amped.estimate(model="GPT-2 small", accelerator=name, gpus=8)
    told = str(refusal.value)
    row = Tables().row(ACCELERATORS, name)
    empty = [peak for peak in PEAKS if peak in row.columns and row.columns[peak] is None]
    assert f"row '{name}' of accelerator_specifications leaves {', '.join(empty)} empty" in told
    assert 'bf16_peak_flop_rate="' in told


@pytest.mark.thorough
def test_a_coming_machine_is_asked_in_four_bits_with_a_peak_that_the_user_gives():
    asked = {"model": "GPT-2 small", "system": "VR200 NVL72", "gpus": 72, "precision": "nvfp4"}
    found = amped.estimate(**asked, bf16_peak_flop_rate="4 PFLOP/s")
    assert "warning: the figures of 'VR200' are preliminary, as of 2026-03-16" in found.notices
