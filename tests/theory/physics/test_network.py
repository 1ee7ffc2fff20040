"""Collectives, whatever runs them: volumes are conserved, steps cost latency, links bound the bandwidth."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import amped
from amped.theory.links import electrical as collectives
from amped.theory.nouns.link_records import Link, Links
from amped.theory.nouns.parallelisms import PARALLELISMS
from amped.theory.nouns.records import Collective, Group

# Links of round numbers that take no time but to pass bytes, with all algorithms but that of the switch.
LINKS = Links(
    "links", collectives.TIMES, tuple(a for a in collectives.ALGORITHMS.values() if a.name != "in_switch"), overhead=0.0,
    inside=Link("inside", 300e9, latency=0.0), across=Link("across", 25e9, latency=0.0), tree=1.0, switch=1.0,
)  # fmt: skip
SLOW_TO_START = replace(
    LINKS, inside=Link("inside", 300e9, 3e-6, 1e6), across=Link("across", 25e9, 1e-5, 2e6), overhead=5e-6
)
EVERY = tuple(collectives.ALGORITHMS.values())
GROUPS = [(2, 1), (8, 1), (1, 2), (1, 16), (2, 4), (8, 4), (8, 64), (16, 2)]
few = settings(max_examples=30, deadline=None, derandomize=True)
every_group = pytest.mark.parametrize("group", GROUPS, ids="{0[0]}x{0[1]}".format)
every_kind = pytest.mark.parametrize("kind", collectives.TIMES)
groups = st.tuples(st.sampled_from([1, 2, 4, 8, 16]), st.sampled_from([1, 2, 3, 8, 64]))
volumes = st.floats(1e3, 1e11)


def collective(group: tuple[int, int], volume: float = 1e9, kind: str = "all_reduce") -> Collective:
    members = Group("it", np.array([1.0 * group[0]]), np.array([1.0 * group[1]]))
    return Collective("it", kind, volume=np.array([volume]), group=members, count=1.0)


def only(algorithm: str, links: Links = LINKS) -> Links:
    return replace(links, algorithms=(collectives.ALGORITHMS[algorithm],))


def linked(links: Links, which: str, **changed: float) -> Links:
    return replace(links, **{which: replace(getattr(links, which), **changed)})


def called(kind: str, group: tuple[int, int], volume: float = 1e9, links: Links = LINKS) -> float:
    (duration,) = links.durations([collective(group, volume, kind)])
    return float(duration.time[0])


def link_of(bandwidth: tuple[float, float], latency: float) -> st.SearchStrategy[Link]:
    return st.builds(Link, st.just("link"), st.floats(*bandwidth), st.floats(0, latency), st.floats(0, 1e7))


links_of = st.builds(
    Links, st.just("links"), st.just(collectives.TIMES), st.sampled_from([EVERY, LINKS.algorithms]),
    overhead=st.floats(0, 1e-5), inside=link_of((1e10, 1e12), 1e-5), across=link_of((1e9, 1e11), 1e-4),
    tree=st.floats(0.5, 1), switch=st.floats(0.5, 1.5),
)  # fmt: skip
# What is better ten times as good, or not there at all.
BETTER = {"bandwidth": 10, "latency": 0, "ramp": 0, "tree": 1.5, "switch": 10, "overhead": 0}


# --- a full mesh ----------------------------------------------------------------------------------------------------

MESH = replace(LINKS, mesh=8.0)


@every_kind
def test_a_group_of_a_mesh_uses_only_the_links_between_its_members(kind: str) -> None:
    for members in (2, 4):
        links = 1 if kind == "send_receive" else members - 1
        switched = called(kind, (members, 1))
        assert called(kind, (members, 1), links=MESH) == pytest.approx(7 / links * switched, rel=1e-12)


@every_group
@pytest.mark.parametrize("kind", [kind for kind in collectives.TIMES if kind != "send_receive"])
def test_a_group_that_fills_the_mesh_or_has_one_member_in_it_loses_nothing(kind: str, group: tuple[int, int]) -> None:
    if group[0] in (1, 8, 16):
        assert called(kind, group, links=MESH) == called(kind, group)


def test_two_accelerators_of_eight_reach_the_bandwidth_that_was_measured() -> None:
    # MI300X in stas00/ml-engineering, network: bus bandwidth 47.7 GB/s with 2 accelerators, 312.9 GB/s with 8.
    links = only("ring", linked(MESH, "inside", bandwidth=312.9e9))
    assert 1e9 / called("all_reduce", (2, 1), links=links) == pytest.approx(47.7e9, rel=0.07)


# --- volume ---------------------------------------------------------------------------------------------------------


@every_group
def test_a_tree_moves_as_much_as_a_ring(group: tuple[int, int]) -> None:
    c, whole = collective(group), collectives.tree_time(collective(group), 2, LINKS)
    assert whole == pytest.approx(collectives.ring_time(c, 2, LINKS), rel=1e-12)
    assert collectives.tree_time(c, 2, replace(LINKS, tree=0.5)) == pytest.approx(2 * whole, rel=1e-12)


@every_group
def test_an_all_reduce_passes_the_payload_twice_whatever_runs_it(group: tuple[int, int]) -> None:
    """2·(n−1)/n of the payload, which is a gather and a scatter. Source: Thakur et al., IJHPCA 19(1), 2005."""
    c, members = collective(group), group[0] * group[1]
    bandwidth = (
        LINKS.inside.bandwidth if group[1] == 1 else min(group[0] * LINKS.across.bandwidth, LINKS.inside.bandwidth)
    )
    twice = 2 * (members - 1) / members * 1e9 / bandwidth
    for algorithm in ("ring", "tree"):
        assert collectives.all_reduce_time(c, only(algorithm)) == pytest.approx(twice, rel=1e-12)
    tiers = collectives.tiered_time(c, 2, LINKS)
    assert collectives.all_reduce_time(c, only("hierarchical")) == pytest.approx(tiers, rel=1e-12)


@every_group
def test_gathering_and_scattering_take_half_an_all_reduce_each(group: tuple[int, int]) -> None:
    """Steps and ramps too; so sequence parallelism moves as much as it replaces."""
    links = only("ring", replace(SLOW_TO_START, overhead=0.0))
    kinds = ("all_gather", "reduce_scatter", "all_reduce")
    gathered, scattered, reduced = (called(kind, group, 1e8, links) for kind in kinds)
    assert gathered == scattered == reduced / 2


def test_tiers_leave_to_the_network_what_the_node_did_not_do() -> None:
    """8 in each of 4 nodes: 7/8 of the payload inside, and across 3/4 of an eighth."""
    expected = 7 / 8 * 1e9 / LINKS.inside.bandwidth + 3 / 4 * 1e9 / 8 / LINKS.across.bandwidth
    assert collectives.tiered_time(collective((8, 4)), 1, LINKS) == pytest.approx(expected, rel=1e-12)


def test_the_switch_adds_up_what_it_passes_on() -> None:
    """Each of 8 sends its payload up, and the eighth that it gets added up once more, for all: V·(1 + 1/8) a link.

    Across 4 nodes that eighth goes twice round a ring.
    """
    inside = (1 + 1 / 8) * 1e9 / LINKS.inside.bandwidth
    assert collectives.switch_time(collective((8, 1)), 2, LINKS) == pytest.approx(inside, rel=1e-12)
    across = 2 * 3 / 4 * 1e9 / 8 / LINKS.across.bandwidth
    assert collectives.switch_time(collective((8, 4)), 2, LINKS) == pytest.approx(inside + across, rel=1e-12)


@every_group
def test_an_all_to_all_sends_each_other_member_its_share_once(group: tuple[int, int]) -> None:
    """What stays inside and what leaves are (n−1)/n of the payload; the slower of both is waited for."""
    c, (intra, inter) = collective(group), group
    inside, outside = (linked(LINKS, which, bandwidth=1e30) for which in ("across", "inside"))
    stays, leaves = (collectives.all_to_all_time(c, links)[0] for links in (inside, outside))
    assert stays * LINKS.inside.bandwidth + leaves * LINKS.across.bandwidth == pytest.approx(
        (1 - 1 / (intra * inter)) * 1e9, rel=1e-6
    )
    assert collectives.all_to_all_time(c, LINKS) == pytest.approx(max(stays, leaves), rel=1e-12)


@every_group
@pytest.mark.parametrize("kind", ["broadcast", "reduce", "send_receive"])
def test_what_all_pass_on_crosses_each_link_once(kind: str, group: tuple[int, int]) -> None:
    links = (
        LINKS.across.bandwidth
        if kind == "send_receive"
        else min(group[0] * LINKS.across.bandwidth, LINKS.inside.bandwidth)
    )
    bandwidth = links if group[1] > 1 else LINKS.inside.bandwidth
    assert called(kind, group) == pytest.approx(1e9 / bandwidth, rel=1e-12)


# --- latency --------------------------------------------------------------------------------------------------------


def test_the_steps_of_a_ring_are_its_members_less_one() -> None:
    inside = [collectives.ring_time(collective((n, 1), 0), 1, SLOW_TO_START)[0] for n in (2, 3, 5, 9)]
    steps = [(n - 1) * 3e-6 + 1e6 / LINKS.inside.bandwidth for n in (2, 3, 5, 9)]
    assert inside == pytest.approx(steps, rel=1e-12)
    both = collectives.ring_time(collective((8, 4), 0), 1, linked(SLOW_TO_START, "across", ramp=0.0))
    assert both == pytest.approx(3 * 1e-5 + 28 * 3e-6, rel=1e-12)


def test_the_steps_of_a_tree_are_its_levels() -> None:
    bare = linked(SLOW_TO_START, "across", ramp=0.0)
    across = [collectives.tree_time(collective((1, n), 0), 2, bare)[0] for n in (2, 4, 16, 256)]
    assert across == pytest.approx([2 * levels * 1e-5 for levels in (1, 2, 4, 8)], rel=1e-12)


def test_trees_are_for_short_messages_among_many_and_rings_for_long_ones() -> None:
    links, group = replace(SLOW_TO_START, tree=0.9), (8, 64)
    for volume, better, worse in ((1e4, "tree", "ring"), (1e11, "ring", "tree")):
        c = collective(group, volume)
        assert collectives.all_reduce_time(c, only(better, links)) < collectives.all_reduce_time(c, only(worse, links))


@every_kind
def test_more_nodes_never_take_less_time(kind: str) -> None:
    for intra in (1, 4, 8):
        times = [called(kind, (intra, inter), 1e7, SLOW_TO_START) for inter in (2, 4, 8, 16, 64)]
        assert times == sorted(times)


# --- bandwidth ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["all_reduce", "all_gather", "reduce_scatter", "broadcast", "reduce"])
def test_members_in_a_node_bring_their_network_cards_until_the_fast_network_is_full(kind: str) -> None:
    """25 GB/s a member beside 300 GB/s inside: 12 members fill it, and more do not help."""
    ring = only("ring")
    passes = 2 if kind == "all_reduce" else 1
    for intra in (1, 2, 4, 8, 12, 16, 24):
        share = 1 if kind in ("broadcast", "reduce") else (intra * 4 - 1) / (intra * 4)
        rate = passes * share * 1e9 / called(kind, (intra, 4), links=ring)
        assert rate == pytest.approx(min(intra * 25e9, 300e9), rel=1e-12)


def test_a_narrower_network_above_the_nodes_slows_what_crosses_it() -> None:
    """In the default config tensor parallelism stays inside the node."""
    told = [amped.estimate("default", oversubscription=factor) for factor in (1, 2, 4)]
    times = {kind: [each[f"exposed_{kind}_communication_time"] for each in told] for kind in PARALLELISMS}
    for kind in ("data", "pipeline"):
        assert times[kind] == sorted(set(times[kind]))
    assert len(set(times["tensor"])) == 1


@every_group
@every_kind
def test_short_messages_do_not_reach_the_bandwidth(kind: str, group: tuple[int, int]) -> None:
    links = linked(linked(LINKS, "inside", ramp=1e6), "across", ramp=2e6)
    rates = [volume / called(kind, group, volume, links) for volume in (1e4, 1e6, 1e8, 1e12)]
    assert rates == sorted(set(rates))
    assert rates[-1] == pytest.approx(1e12 / called(kind, group, 1e12), rel=1e-3)


@every_group
def test_a_message_as_long_as_the_ramp_has_half_the_bandwidth(group: tuple[int, int]) -> None:
    links, members = linked(linked(LINKS, "inside", ramp=1e6), "across", ramp=1e6), group[0] * group[1]
    c = collective(group, 1e6 * members / (members - 1))  # of which each passes on 1 MB
    assert collectives.ring_time(c, 1, links) == pytest.approx(2 * collectives.ring_time(c, 1, LINKS), rel=1e-12)
    passed = collective(group, 1e6)
    for time in (collectives.chain_time, collectives.send_time):
        assert time(passed, links) == pytest.approx(2 * time(passed, LINKS), rel=1e-12)


# --- any group, any links -------------------------------------------------------------------------------------------


@few
@given(groups, volumes, links_of)
def test_the_fastest_algorithm_is_no_slower_than_any(group: tuple[int, int], volume: float, links: Links) -> None:
    c = collective(group, volume)
    fastest = collectives.all_reduce_time(c, links)
    each = [collectives.all_reduce_time(c, only(algorithm.name, links))[0] for algorithm in links.algorithms]
    assert fastest == pytest.approx(min(each), rel=1e-12)
    gathering = [algorithm for algorithm in collectives.ALGORITHMS.values() if algorithm.gathers]
    assert collectives.gather_time(c, links) == min(algorithm.time(c, 1, links)[0] for algorithm in gathering)


@few
@given(st.sampled_from([*collectives.TIMES]), groups, volumes, st.floats(1, 100), links_of)
def test_more_takes_longer(kind: str, group: tuple[int, int], volume: float, times: float, links: Links) -> None:
    assert called(kind, group, volume, links) <= called(kind, group, volume * times, links)


@few
@given(st.sampled_from([*collectives.TIMES]), groups, volumes, links_of, st.sampled_from([*BETTER]))
def test_better_links_are_never_slower(
    kind: str, group: tuple[int, int], volume: float, links: Links, which: str
) -> None:
    for part in ("inside", "across") if hasattr(links.inside, which) else ("",):
        better = (
            linked(links, part, **{which: BETTER[which] * getattr(getattr(links, part), which)})
            if part
            else replace(links, **{which: BETTER[which] * getattr(links, which)})
        )
        assert called(kind, group, volume, better) <= called(kind, group, volume, links) * (1 + 1e-12)


@every_kind
def test_one_alone_and_nothing_to_say_take_no_time(kind: str) -> None:
    assert called(kind, (1, 1), 1e9, SLOW_TO_START) == 0
    assert called(kind, (8, 4), 0.0, SLOW_TO_START) == 0
    assert called(kind, (8, 4), 1.0, SLOW_TO_START) > SLOW_TO_START.overhead


# --- as chosen ------------------------------------------------------------------------------------------------------


def test_a_chosen_algorithm_is_no_faster_than_the_automatic_choice() -> None:
    name = "exposed_tensor_communication_time"
    own = amped.estimate("default", overlap_tensor_communication=False)[name]
    chosen = {how: amped.estimate("default", overlap_tensor_communication=False, collective_algorithm=how)[name]
              for how in collectives.ALGORITHMS if how != "in_switch"}  # fmt: skip
    assert own == min(chosen.values())


def test_a_switch_that_adds_is_used_where_it_is_faster() -> None:
    name = "exposed_tensor_communication_time"
    plain, adding = (amped.estimate("llama-3-70b", sequence_parallel=False, in_switch_reduction=there)[name]
                     for there in (False, True))  # fmt: skip
    assert adding < plain
    gathering = [amped.estimate("llama-3-70b", in_switch_reduction=there)[name] for there in (False, True)]
    assert gathering[0] == gathering[1]
