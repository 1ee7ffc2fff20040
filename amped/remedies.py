"""What would make a configuration fit: small changes of the mapping, each tried, the smallest that works told."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace

from amped.errors import AmpedError
from amped.estimation import Estimation
from amped.evaluate import run
from amped.resolve import plan
from amped.sources import Sources

Change = Mapping[str, float | str]
LARGEST_DEGREE = 4096
TARGETS = ("fits_in_memory",)


def smallest_change(estimation: Estimation) -> str:
    """The smallest change that makes the configuration fit, in words; what it comes to where none of those tried does.

    Tried in this order: a smaller micro-batch, recomputation, sharding of the states, both, and larger tensor and
    pipeline degrees with both. What is not changed stays as it is; data parallelism gives way to larger degrees.
    """
    for change in _changes(estimation):
        if _fits(estimation, change):
            return " and ".join(
                f"{name} = {value if isinstance(value, str) else f'{value:g}'}" for name, value in change.items()
            )
    return "no smaller micro-batch, recomputation, sharding or splitting does: take more accelerators or more memory"


def _changes(e: Estimation) -> Iterator[Change]:
    """Changes from small to large."""
    largest = e["largest_microbatch_size"]
    sizes = [b for b in range(int(min(largest, e["microbatch_size"] - 1)), 0, -1) if e["minibatch_size"] % b == 0]
    yield from ({"microbatch_size": float(size)} for size in sizes[:1])
    own = e.choices["activation_recomputation"]
    modes = {"none": ("selective", "full"), "selective": ("full",), "block": ("full",)}.get(own, ())
    recomputing: list[Change] = [{"activation_recomputation": mode} for mode in modes]
    stages = [float(stage) for stage in range(int(e["zero_stage"]) + 1, 4)]
    sharding: list[Change] = [{"zero_stage": stage} for stage in stages]
    yield from (*recomputing, *sharding)
    both = [{**r, **s} for s in sharding for r in recomputing]
    yield from both
    strongest = {
        "microbatch_size": 1.0,
        **(recomputing[-1] if recomputing else {}),
        **(sharding[0] if sharding else {}),
    }
    for factor in (2, 4, 8, 16, 32, 64):
        for kind in ("tensor", "pipeline"):
            name = f"{kind}_parallel_degree"
            if e[name] * factor <= LARGEST_DEGREE:
                yield {name: e[name] * factor, **strongest}


def _fits(e: Estimation, change: Change) -> bool:
    """Whether the configuration keeps every rule and fits with the change."""
    known = e.scenario.catalogue
    sources = _changed(e, change)
    try:
        chosen = plan(known, (*TARGETS, *known.constraints), sources)
        results = run(chosen, sources.given)
    except AmpedError:
        return False
    return all(results.number(name) for name in chosen.targets)


def _changed(e: Estimation, change: Change) -> Sources:
    """The sources with the change in them, on as many accelerators as before."""
    own, known = e.scenario.sources, e.scenario.catalogue
    dropped = {name for changed in change for name in known[changed].replaces}
    if any(name.endswith("_parallel_degree") for name in change):
        dropped |= {n for n in own.given if n.endswith("data_parallel_degree")}
    numbers = {name: value for name, value in change.items() if not isinstance(value, str)}
    given = {name: value for name, value in own.given.items() if name not in dropped}
    if "number_of_nodes" not in given:
        given["number_of_accelerators"] = e["number_of_accelerators"]
    choices = own.choices | {name: value for name, value in change.items() if isinstance(value, str)}
    return replace(own, given=given | numbers, choices=choices)
