"""The published way to choose layouts: shortest paths along a chain of operators.

A node is the layout of the tensor between two operators, an edge's weight the fastest row with those layouts. What is
not on the chain (weights, residual connections) is minimized away on each edge, so a path may not fit together; splitting
a variable (solving once for each of its layouts) mends that. Strategies: forward path first, backward under its layouts
(`fp_first`); the other way round (`bp_first`, the published default); both at once (`combined`), which forgets what they
share. Source: Ivanov et al. 2021, section 5, and their optimize.py. Differs: what a path leaves open is chosen exactly,
not greedily; and of several splits the fastest whole plan is taken, not the shortest path.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from itertools import product

from amped.base.errors import ConfigError, did_you_mean
from amped.kernels.layouts.exact import solve_exact
from amped.kernels.layouts.graph import InfeasibleError, Relation, consistent, time_of

# Operators between two tensors of the chain, and the tensor after them.
Chain = tuple[tuple[tuple[str, ...], str], ...]
FORWARD_CHAIN: Chain = (
    (("QKV",), "KQV"), (("aib",), "KKQQVV"), (("QKT",), "BETA"), (("softmax",), "ATTN_DROP"), (("gamma",), "GAMMA"),
    (("out",), "ATT"), (("bdrln1",), "SB1"), (("lin1",), "LIN1MM"), (("bad",), "DROP2"), (("lin2",), "LIN2MM"),
    (("bdrln2",), "X"),
)  # fmt: skip
BACKWARD_CHAIN: Chain = (
    (("bsb", "blnrd1"), "DLIN2"), (("dXlin2", "dWlin2"), "DDROP2"), (("bdrlb",), "DROP2"), (("dXlin1", "dWlin1"), "DSB1"),
    (("ebsb",), "SB1"), (("blnrd2",), "DATT"), (("baob", "dXout", "dWout"), "DGAMMA"), (("dX1gamma",), "DATTN_DROP"),
    (("bs",), "ATTN_DROP"), (("dX2gamma", "dX1QKT", "dX2QKT"), "DKKQQVV"), (("baib", "dXQKV", "dWQKV"), "DXATT"),
    (("bei",), "X"),
)  # fmt: skip
_FLASH = {"QKT": None, "softmax": None, "gamma": (("sdpa",), "GAMMA"), "dX1gamma": None, "bs": None,
          "dX2gamma": (("sdpa_bwd",), "DKKQQVV")}  # fmt: skip
STRATEGIES = ("exact", "bp_first", "fp_first", "combined")


def chain_of(chain: Chain, attention: str) -> Chain:
    """The chain with fused attention where that is asked for."""
    if attention == "explicit":
        return chain
    links = (_FLASH.get(operators[0], (operators, after)) for operators, after in chain)
    return tuple(link for link in links if link is not None)


def solve_path(given: Iterable[Relation], chain: Chain, bound: Mapping[str, str] | None = None) -> dict[str, str]:
    """The layouts of a chain's tensors on the shortest path; a tensor that comes twice with two layouts is left open.

    Raises:
        InfeasibleError: if there is no path.
    """
    left = {relation.name: relation for relation in consistent(given, bound)}
    paths: dict[str, tuple[float, tuple[str, ...]]] = {}
    before = ""
    for operators, after in chain:
        edges = _edges([left[name] for name in operators if name in left], before or "X", after)
        paths = _extended(paths, edges, first=not before)
        if not paths:
            raise InfeasibleError(f"no path leads through {' and '.join(operators)}", "split more variables")
        before = after
    names = ("X", *(after for _, after in chain))
    _, layouts = min(paths.values())
    found: dict[str, set[str]] = {}
    for name, layout in zip(names, layouts, strict=True):
        found.setdefault(name, set()).add(layout)
    return {name: next(iter(options)) for name, options in found.items() if len(options) == 1}


def _edges(relations: list[Relation], before: str, after: str) -> dict[tuple[str, str], float]:
    """The least summed time of some operators for each pair of layouts of two tensors; all else is minimized away."""
    joined: dict[tuple[tuple[str, str], ...], float] = {(): 0.0}
    for relation in relations:
        joined = _joined(joined, relation)
    edges: dict[tuple[str, str], float] = {}
    for choice, time in joined.items():
        layouts = dict(choice)
        pair = layouts[before], layouts[after]
        edges[pair] = min(time, edges.get(pair, float("inf")))
    return edges


def _joined(
    joined: dict[tuple[tuple[str, str], ...], float], relation: Relation
) -> dict[tuple[tuple[str, str], ...], float]:
    """Choices that agree with the rows of one more operator, times added."""
    found: dict[tuple[tuple[str, str], ...], float] = {}
    for choice, time in joined.items():
        known = dict(choice)
        for row, more in relation.times.items():
            new = dict(zip(relation.variables, row, strict=True))
            if all(known.get(name, layout) == layout for name, layout in new.items()):
                found[tuple(sorted((known | new).items()))] = time + more
    return found


def _extended(
    paths: dict[str, tuple[float, tuple[str, ...]]], edges: Mapping[tuple[str, str], float], first: bool
) -> dict[str, tuple[float, tuple[str, ...]]]:
    """The shortest path to each layout after one more edge: a chain has no other neighbors, so this is Dijkstra's."""
    found: dict[str, tuple[float, tuple[str, ...]]] = {}
    for (before, after), time in edges.items():
        start = (0.0, (before,)) if first else paths.get(before)
        if start is not None:
            candidate = start[0] + time, (*start[1], after)
            found[after] = min(candidate, found.get(after, (float("inf"), ())))
    return found


def solve_by_paths(
    given: list[Relation], strategy: str, split: tuple[str, ...] = (), attention: str = "explicit"
) -> dict[str, str]:
    """The layouts that a published strategy finds; with `split`, the best over the layouts of those variables.

    Raises:
        InfeasibleError: if its paths fit no whole layer: published plans split X, KKQQVV and SB1, or more.
        ConfigError: for a variable to split that does not exist.
    """
    left = consistent(given)
    names = sorted({name for relation in left for name in relation.variables})
    for name in split:
        if name not in names:
            raise ConfigError(f"there is no variable {name!r} to split", did_you_mean(name, names) or ", ".join(names))
    options = [sorted({c[0] for r in left if name in r.variables for c in r.seen_on((name,))}) for name in split]
    best: tuple[float, dict[str, str]] | None = None
    refusal: InfeasibleError | None = None
    for choice in product(*options):
        try:
            layouts = _by_paths(left, strategy, dict(zip(split, choice, strict=True)), attention)
        except InfeasibleError as error:
            refusal = error
            continue
        time = time_of(left, layouts)
        best = (time, layouts) if best is None or time < best[0] else best
    if best is None:
        told = f"{strategy} finds no plan: {refusal}"
        raise InfeasibleError(told, "split variables (--split-vars X,KKQQVV,SB1), or take --strategy exact")
    return best[1]


def _by_paths(given: list[Relation], strategy: str, bound: dict[str, str], attention: str) -> dict[str, str]:
    """The layouts of one strategy under the layouts that are bound."""
    forward, backward = (chain_of(chain, attention) for chain in (FORWARD_CHAIN, BACKWARD_CHAIN))
    order = (forward, backward) if strategy == "fp_first" else (backward, forward)
    chosen = dict(bound)
    for chain in order:
        under = bound if strategy == "combined" else chosen
        for name, layout in solve_path(given, chain, under).items():
            if chosen.setdefault(name, layout) != layout:
                raise InfeasibleError(f"the two paths want {name} as {chosen[name]} and as {layout}")
    return solve_exact(given, chosen)
