"""A network of optical circuits beside an electrical one: chosen, refused, compared."""

import pytest

import amped
from amped.base.errors import AmpedError
from amped.configuring.scenario import read_scenario
from amped.estimation.comparison import inputs_that_differ
from amped.estimation.estimation import estimated
from amped.theory.language.catalogue import catalogue
from amped.theory.links import electrical, optical

OPTICAL = {"network_kind": "optical_circuit_switched"}

# --- in the house ---------------------------------------------------------------------------------------------------


def test_both_networks_have_a_time_for_every_kind_of_collective() -> None:
    assert {f.mark.value for f in catalogue()["network"].formulas} == set(catalogue()["network_kind"].mark.choices)
    assert electrical.TIMES.keys() == optical.TIMES.keys()


def test_an_electrical_network_knows_nothing_of_circuits() -> None:
    changed = {"reconfiguration_time": 1, "number_of_wavelengths": 1, "bandwidth_per_wavelength": 1,
               "circuits_inside_node": True, "overlapped_reconfiguration_fraction": 0.5}  # fmt: skip
    for config in ("default", "mixtral-8x7b"):
        assert amped.estimate(config).to_dict() == amped.estimate(config, **changed).to_dict()


def test_a_chosen_way_is_no_faster_than_the_automatic_choice() -> None:
    chosen = [amped.estimate("default", **OPTICAL, circuits_inside_node=True, collective_algorithm=how)["step_time"]
              for how in ("ring", "halving_doubling", "k_nomial")]  # fmt: skip
    assert amped.estimate("default", **OPTICAL, circuits_inside_node=True)["step_time"] <= min(chosen)


def test_slots_share_a_reconfiguration_and_what_is_hidden_is_not_waited_for() -> None:
    shared = amped.estimate("default", **OPTICAL, reconfiguration_time="8 us", number_of_messages_per_reconfiguration=4)
    hidden = amped.estimate("default", **OPTICAL, reconfiguration_time="8 us", overlapped_reconfiguration_fraction=0.75)
    faster = amped.estimate("default", **OPTICAL, reconfiguration_time="2 us")
    assert shared["step_time"] == hidden["step_time"] == faster["step_time"]


@pytest.mark.parametrize(
    ("overrides", "told"),
    [
        ({"number_of_circuits_per_accelerator": 65}, "nearest number_of_circuits_per_accelerator: 64"),
        ({"number_of_wavelengths": 3.5}, "3.5 is not a whole number"),
        ({"number_of_wavelengths": 0}, "0 is below 1"),
        ({"reconfiguration_time": -1}, "-1 is below 0"),
        ({"overlapped_reconfiguration_fraction": 1.5}, "1.5 is above 1"),
        ({"number_of_messages_per_reconfiguration": 0}, "0 is below 1"),
        ({"bandwidth_per_wavelength": 0}, "0 is not above 0"),
        ({"bandwidth_per_wavelength": "8 us"}, "bandwidth_per_wavelength"),
        ({"collective_algorithm": "tree"},
         "choose collective_algorithm = automatic or ring or halving_doubling or k_nomial"),
        ({"performance_model": "amped"}, "choose network_kind = electrical"),
    ],
)  # fmt: skip
def test_nonsense_is_refused(overrides: dict[str, object], told: str) -> None:
    with pytest.raises(AmpedError, match=told):
        amped.estimate("default", **OPTICAL, **overrides)


@pytest.mark.parametrize("way", ["halving_doubling", "k_nomial"])
def test_ways_over_circuits_are_refused_on_links(way: str) -> None:
    with pytest.raises(AmpedError, match="choose collective_algorithm = automatic or ring or tree"):
        amped.estimate("default", collective_algorithm=way)


# --- the shipped pair -----------------------------------------------------------------------------------------------

PAIR = ("electrical-glam-1.2T", "optical-glam-1.2T")
# arXiv 2211.15226: 12.8 Tbit/s for each node, which is one accelerator, and circuits set in nanoseconds.
RAMP = {"bandwidth_per_wavelength": "200 Gbit/s", "reconfiguration_time": "20 ns", "circuits_inside_node": True}


def times_as_fast(one: str, other: str, changed: dict[str, object] | None = None, **overrides: object) -> float:
    electrical, optical = amped.estimate(one, **overrides), amped.estimate(other, **overrides, **changed or {})
    assert electrical["compute_forward_time"] == optical["compute_forward_time"]
    assert electrical["number_of_accelerators"] == optical["number_of_accelerators"]
    return electrical["step_time"] / optical["step_time"]


def test_optics_train_a_large_model_faster_without_more_compute() -> None:
    """AMPeD (ISPASS 2023) says up to about 4 times; which bandwidths it took is not known here, so nothing is fitted."""
    chiplet, ramp = times_as_fast(*PAIR), times_as_fast(*PAIR, RAMP)
    assert 1.5 < chiplet < ramp
    assert ramp > 3


def test_a_model_that_seldom_communicates_gains_little() -> None:
    dense = {"model": "GPT-3 6.7B", "zero_stage": 1, "expert_parallel_degree": 1, "batch_size": 4096}
    assert 1 < times_as_fast(*PAIR, **dense) < times_as_fast(*PAIR)


def test_switches_of_mirrors_take_the_gain_away_where_every_step_sets_them() -> None:
    mirrors = amped.estimate(PAIR[1], reconfiguration_time="10 ms")
    assert mirrors["step_time"] > amped.estimate(PAIR[0])["step_time"]
    kept = amped.estimate(PAIR[1], reconfiguration_time="10 ms", number_of_messages_per_reconfiguration=10000)
    assert kept["step_time"] < amped.estimate(PAIR[0])["step_time"]


def test_the_pair_differs_in_its_network_alone() -> None:
    differing = inputs_that_differ(*(estimated(read_scenario(name)) for name in PAIR))
    assert {d.kind for d in differing} == {"system"}
    assert "network_kind" in {d.name for d in differing}
