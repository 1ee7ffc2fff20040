"""Collectives over optical circuits: every accelerator gets everything, in the time the formulas say."""

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from amped.theory.links import electrical as collectives
from amped.theory.links import optical as circuits
from amped.theory.nouns.link_records import Circuits, Link, Links
from amped.theory.nouns.records import Collective, Group
from tests.helpers.simulated import circuits as messages

# Optics of round numbers: 12 wavelengths of 1 GB/s, for up to 3 partners, and links in the node ten times as fast.
OPTICS = Circuits(
    "optics", circuits.TIMES, tuple(circuits.ALGORITHMS.values()), overhead=5e-6, inside=Link("inside", 120e9, 1e-6, 1e3),
    wavelength=Link("wavelength", 1e9, 1e-5, 1e4), wavelengths=12.0, circuits=3.0, setting=1e-4, flat=0.0,
)  # fmt: skip
WAYS = tuple(circuits.ALGORITHMS)
SIZES = [*range(2, 21), 25, 27, 31, 32, 33, 48, 63, 64, 65, 81, 100]
VOLUME = 3.6e7
few = settings(max_examples=40, deadline=None, derandomize=True)
PARTNERS = (1, 2, 3, 4, 7, 12)
every_size = pytest.mark.parametrize("size", SIZES)
every_kind = pytest.mark.parametrize("kind", circuits.TIMES)
groups = st.tuples(st.sampled_from([1, 2, 3, 4, 8, 16]), st.sampled_from([1, 2, 3, 5, 8, 64]))
links_of = st.builds(Link, st.just("inside"), st.floats(1e10, 1e12), st.floats(0, 1e-5), st.floats(0, 1e7))
wavelengths_of = st.builds(Link, st.just("one"), st.floats(1e8, 1e10), st.floats(0, 1e-4), st.floats(0, 1e7))
optics_of = st.builds(
    Circuits, st.just("optics"), st.just(circuits.TIMES), st.just(OPTICS.algorithms), overhead=st.floats(0, 1e-5),
    inside=links_of, wavelength=wavelengths_of, wavelengths=st.integers(8, 64).map(float),
    circuits=st.integers(1, 8).map(float), setting=st.floats(0, 1e-2), flat=st.sampled_from([0.0, 1.0]),
)  # fmt: skip


def waved(net: Circuits, **changed: float) -> Circuits:
    return replace(net, wavelength=replace(net.wavelength, **changed))


def message(kind: str, group: tuple[float, float], volume: float = VOLUME) -> Collective:
    members = Group("it", np.array([1.0 * group[0]]), np.array([1.0 * group[1]]))
    return Collective("it", kind, volume=np.array([volume]), group=members, count=1.0)


def simulated(collective: Callable[..., None], *arguments: float, net: Circuits = OPTICS) -> float:
    fabric = messages.Fabric(
        int(net.wavelengths), net.wavelength.bandwidth, net.setting, net.wavelength.latency, net.wavelength.ramp
    )
    collective(fabric, *arguments)
    return fabric.clock


def called(kind: str, group: tuple[int, int], volume: float = VOLUME, net: Circuits = OPTICS) -> float:
    (duration,) = net.durations([message(kind, group, volume)])
    return float(duration.time[0])


def only(way: str, net: Circuits = OPTICS) -> Circuits:
    return replace(net, algorithms=(circuits.ALGORITHMS[way],))


# --- message by message ---------------------------------------------------------------------------------------------


@every_size
def test_gathering_takes_what_its_rounds_take(size: int) -> None:
    formulas = {p: float(circuits.rounds_time(1.0 * size, VOLUME, 1.0 * p, OPTICS)) for p in PARTNERS}
    for executed in (messages.all_gather, messages.reduce_scatter, messages.scatter):
        assert formulas == pytest.approx({p: simulated(executed, size, VOLUME, p) for p in PARTNERS}, rel=1e-12)


@every_size
def test_there_are_as_many_rounds_as_the_logarithm_says(size: int) -> None:
    rounds = {p: next(n for n in range(size) if (p + 1) ** n >= size) for p in PARTNERS}
    assert {p: len(messages.gathering(size, p)) for p in PARTNERS} == rounds
    setting_alone = replace(OPTICS, setting=1.0, wavelength=Link("endless", 1e300, 0.0))
    assert {p: circuits.rounds_time(1.0 * size, 0.0, 1.0 * p, setting_alone) for p in PARTNERS} == rounds


@pytest.mark.parametrize("size", [2, 4, 8, 16, 32, 64, 128])
def test_an_all_reduce_of_a_power_of_two_is_rabenseifners(size: int) -> None:
    formula = called("all_reduce", (1, size), net=replace(only("halving_doubling"), overhead=0))
    assert formula == pytest.approx(simulated(messages.halving_and_doubling, size, VOLUME), rel=1e-12)


@pytest.mark.parametrize("exponent", [1, 2, 3, 4, 5, 6])
@pytest.mark.parametrize("radix", [2, 3, 5, 6, 7, 10, 12])
def test_powers_are_told_from_their_neighbors(radix: int, exponent: int) -> None:
    net = replace(OPTICS, setting=1.0, wavelength=Link("endless", 1e300, 0.0))
    rounds = [circuits.rounds_time(1.0 * radix**exponent + more, 0.0, radix - 1.0, net) for more in (0, 1)]
    assert rounds == [exponent, exponent + 1]


@every_size
def test_a_ring_sets_its_circuits_once(size: int) -> None:
    formula = circuits.ring_time(message("all_gather", (1, size)), 1, OPTICS)
    assert formula == pytest.approx(simulated(messages.ring_gather, size, VOLUME), rel=1e-12)


@every_size
def test_a_broadcast_takes_the_fastest_of_its_ways(size: int) -> None:
    formulas, executed = {}, {}
    for partners in PARTNERS:
        net = replace(OPTICS, circuits=1.0 * partners)
        tree = simulated(messages.tree_broadcast, size, VOLUME, partners)
        halves = [simulated(messages.scatter, size, VOLUME, p) + simulated(messages.all_gather, size, VOLUME, p)
                  for p in (1, partners)]  # fmt: skip
        chain = net.setting + (size - 1) * net.wavelength.latency
        chain += (VOLUME + net.wavelength.ramp) / (net.wavelengths * net.wavelength.bandwidth)
        formulas[partners] = float(circuits.spread_time(1.0 * size, VOLUME, net))
        executed[partners] = min(tree, chain, *halves)
    assert formulas == pytest.approx(executed, rel=1e-12)


@every_size
def test_an_exchange_takes_the_fastest_of_its_ways(size: int) -> None:
    turns = {p: simulated(messages.exchange_in_turns, size, VOLUME, p) for p in PARTNERS}
    round_the_ring = simulated(messages.exchange_round_the_ring, size, VOLUME)
    executed = {p: min(turns[1], turns[p], round_the_ring) for p in PARTNERS}
    each = {p: replace(OPTICS, circuits=1.0 * p) for p in PARTNERS}
    formulas = {p: float(circuits.exchange_time(1.0 * size, VOLUME, net)) for p, net in each.items()}
    assert formulas == pytest.approx(executed, rel=1e-12)


def test_by_hand() -> None:
    """8 accelerators, 12 MB, one partner at a time over 12 GB/s: 6, 3 and 1.5 MB, three times 110 µs, 3 ramps."""
    net = waved(OPTICS, ramp=0.0)
    assert circuits.rounds_time(8.0, 12e6, 1.0, net) == pytest.approx(3 * 110e-6 + 10.5e6 / 12e9, rel=1e-12)
    # Three partners at 4 GB/s each: 1.5 MB from each of 3, then the 4 parts that lack, 6 MB from one over all.
    assert circuits.rounds_time(8.0, 12e6, 3.0, net) == pytest.approx(2 * 110e-6 + 1.5e6 / 4e9 + 6e6 / 12e9, rel=1e-12)


# --- tiers ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["all_gather", "reduce_scatter", "all_reduce"])
def test_inside_the_node_electrical_links_work(kind: str) -> None:
    """4 in a node share a payload of 36 MB over 120 GB/s, then each its quarter with 5 other nodes."""
    passes = 2 if kind == "all_reduce" else 1
    near = passes * ((0.75 * VOLUME + 1e3) / 120e9 + 3e-6)
    across = called(kind, (1, 5), VOLUME / 4)
    assert called(kind, (4, 5)) == pytest.approx(near + across, rel=1e-12)


@every_kind
def test_where_circuits_reach_inside_the_node_it_makes_no_difference(kind: str) -> None:
    flat = replace(OPTICS, flat=1.0)
    assert called(kind, (4, 5), net=flat) == called(kind, (1, 20)) == called(kind, (20, 1), net=flat)


@pytest.mark.parametrize("kind", ["broadcast", "all_to_all", "send_receive"])
def test_a_group_inside_a_node_needs_no_circuit(kind: str) -> None:
    slow, switch = Link("across", 1e9, 1.0), (collectives.ALGORITHMS["in_switch"],)
    links = Links("links", collectives.TIMES, switch, 5e-6, OPTICS.inside, across=slow, tree=1.0, switch=1.0)
    (electrical,) = links.durations([message(kind, (8, 1))])
    assert called(kind, (8, 1)) == pytest.approx(float(electrical.time[0]), rel=1e-12)


# --- limits ---------------------------------------------------------------------------------------------------------


@every_size
def test_circuits_that_cost_nothing_leave_the_bandwidth(size: int) -> None:
    free = replace(waved(OPTICS, latency=0.0, ramp=0.0), setting=0.0, overhead=0.0)
    least = (size - 1) / size * VOLUME / 12e9
    assert called("all_gather", (1, size), net=free) == pytest.approx(least, rel=1e-12)
    assert called("all_reduce", (1, size), net=free) == pytest.approx(2 * least, rel=1e-12)
    assert called("all_to_all", (1, size), net=free) == pytest.approx(least, rel=1e-12)
    for way in WAYS:
        assert called("all_gather", (1, size), net=only(way, free)) >= least * (1 - 1e-12)


@few
@given(st.sampled_from([*circuits.TIMES]), groups, st.floats(1e3, 1e11), optics_of, st.floats(1, 1e6))
def test_longer_reconfiguration_is_never_better(
    kind: str, group: tuple[int, int], volume: float, net: Circuits, times: float
) -> None:
    slower = replace(net, setting=net.setting * times + (times - 1))
    assert called(kind, group, volume, slower) >= called(kind, group, volume, net)


@pytest.mark.parametrize("group", [(1, 2), (8, 4), (4, 1)], ids="{0[0]}x{0[1]}".format)
@every_kind
def test_circuits_that_never_come_leave_what_needs_none(kind: str, group: tuple[int, int]) -> None:
    never = called(kind, group, net=replace(OPTICS, setting=1e30))
    assert (never < 1) == (group == (4, 1))
    assert never < 1 or never >= 1e30


@few
@given(st.sampled_from([*circuits.TIMES]), groups, st.floats(1e3, 1e11), optics_of, st.integers(1, 64))
def test_more_wavelengths_are_never_slower(
    kind: str, group: tuple[int, int], volume: float, net: Circuits, more: int
) -> None:
    wider = replace(net, wavelengths=net.wavelengths + more)
    assert called(kind, group, volume, wider) <= called(kind, group, volume, net) * (1 + 1e-12)


@few
@given(st.sampled_from([*circuits.TIMES]), groups, st.floats(1e3, 1e11), st.floats(1, 100), optics_of)
def test_more_takes_longer(kind: str, group: tuple[int, int], volume: float, times: float, net: Circuits) -> None:
    assert called(kind, group, volume, net) <= called(kind, group, volume * times, net) * (1 + 1e-12)


@every_kind
def test_one_alone_and_nothing_to_say_take_no_time(kind: str) -> None:
    assert called(kind, (1, 1)) == 0
    assert called(kind, (8, 4), 0.0) == 0
    assert called(kind, (8, 4), 1.0) > OPTICS.overhead


@every_kind
def test_many_at_once_are_what_each_is_alone(kind: str) -> None:
    sizes = np.arange(1.0, 300.0)
    group = Group("it", np.ones_like(sizes), sizes)
    (duration,) = OPTICS.durations([Collective("it", kind, volume=VOLUME * sizes, group=group, count=1.0)])
    alone = [called(kind, (1, int(size)), VOLUME * size) for size in sizes]
    assert duration.time.tolist() == alone


def test_slow_switches_leave_the_ring_and_fast_ones_the_rounds() -> None:
    mirrors, lasers = replace(OPTICS, setting=10e-3), replace(OPTICS, setting=20e-9)
    for net, best in ((mirrors, "ring"), (lasers, "k_nomial")):
        times = {way: called("all_reduce", (1, 64), 1e6, only(way, net)) for way in WAYS}
        assert min(times, key=lambda way: times[way]) == best
        assert called("all_reduce", (1, 64), 1e6, net) == times[best]
