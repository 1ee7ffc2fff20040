"""Machines of 2026: no accelerator is answered on another vendor's network, and what sources contradict is told."""

import pytest

import amped
from amped.base.errors import ResolveError
from amped.tables.table_files import ACCELERATORS, PEAKS, SYSTEMS
from amped.tables.tables import Tables, system_built_with, system_of_its_form

PRELIMINARY = {"VR200": "2026-03-16", "MI455X": "2026-01-05"}


@pytest.mark.parametrize("name", Tables().names(ACCELERATORS))
def test_no_accelerator_is_answered_on_another_vendors_network(name):
    tables = Tables()
    system = system_of_its_form(name, tables)
    if system is not None and system_built_with(name, tables) is None:
        row = tables.row(SYSTEMS, system)
        other = tables.row(ACCELERATORS, row.column("accelerator"))
        is_any_box_of_cards = str(row.columns.get("scale_up_link")).startswith("PCIe")
        assert is_any_box_of_cards or other.column("vendor") == tables.row(ACCELERATORS, name).column("vendor")


@pytest.mark.parametrize(
    "name", ["Trainium 3", "RTX PRO 6000", "GB10", "Arc Pro B60", "MI325X", "MI350X", *PRELIMINARY]
)
def test_an_accelerator_of_2026_has_a_system_of_its_own(name):
    tables = Tables()
    system = tables.row(SYSTEMS, str(system_built_with(name, tables)))
    accelerator = tables.row(ACCELERATORS, name)
    assert system.column("accelerator") == accelerator.name
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


@pytest.mark.parametrize("name", PRELIMINARY)
def test_peaks_that_are_left_empty_are_told_with_what_can_be_asked(name):
    with pytest.raises(ResolveError) as refusal:
        amped.estimate(model="GPT-2 small", accelerator=name, gpus=72)
    told = str(refusal.value)
    row = Tables().row(ACCELERATORS, name)
    empty = [peak for peak in PEAKS if peak in row.columns and row.columns[peak] is None]
    assert f"row '{name}' of accelerator_specifications leaves {', '.join(empty)} empty" in told
    assert "--set bf16_peak_flop_rate=" in told


@pytest.mark.thorough
def test_a_coming_machine_is_asked_in_four_bits_with_a_peak_that_the_user_gives():
    asked = {"model": "GPT-2 small", "system": "VR200 NVL72", "gpus": 72, "precision": "nvfp4"}
    found = amped.estimate(**asked, bf16_peak_flop_rate="4 PFLOP/s")
    assert "warning: the figures of 'VR200' are preliminary, as of 2026-03-16" in found.notices
