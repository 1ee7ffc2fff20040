"""The published way to choose layouts, an oracle of the exact choice: shortest paths along a chain of operators.

A node is the layout of the tensor between two operators; the weight of an edge is the fastest row with its two layouts.
What is not on the chain (weights, residual connections) is minimized on each edge alone, so that edges of a path may
contradict each other; splitting a variable (solving once for each of its layouts) mends that. Strategies: the forward
path first, then the backward path under its layouts (`fp_first`); the other way round (`bp_first`, the published
default); both at once (`combined`), which ignores what they share. Source: Ivanov et al. 2021, section 5, and their
optimize.py. Differs: what a path leaves open is chosen exactly, not greedily; and of several splits the fastest whole
plan is taken, not the shortest path.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from itertools import chain as flattened
from itertools import product

from amped.kernels.tensor_layouts.exact import solve_exact
from amped.kernels.tensor_layouts.graph import InfeasibleError, Relation, consistent, layouts_seen, time_of
from amped.kernels.tensor_layouts.variables import variable_of
from tests.helpers.tensor_layouts import chosen

# The operators between two tensors of the chain, and the tensor after them.
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
STRATEGIES = ("bp_first", "fp_first", "combined")
# The tensors that published configurations split. Source: Ivanov et al. 2021, the configurations beside their code.
PUBLISHED_SPLITS = (("X", "LN1", "LN2", "LIN2", "DLIN2"), ("X", "DROP2", "LN1"))


def chain_of(chain: Chain, attention: str) -> Chain:
    """The chain, with fused attention if it is asked for."""
    if attention == "explicit":
        return chain
    links = (_FLASH.get(operators[0], (operators, after)) for operators, after in chain)
    return tuple(link for link in links if link is not None)


def solve_path(given: Iterable[Relation], chain: Chain, bound: Mapping[str, str] | None = None) -> dict[str, str]:
    """The layouts of a chain's tensors on the shortest path; a tensor that gets two layouts is left open.

    The choice is exact if no two links share a tensor that is not on the chain.

    Raises:
        InfeasibleError: if there is no path.
    """
    left = {relation.name: relation for relation in consistent([*given, *chosen(bound or {})])}
    tensors = ("X", *(after for _, after in chain))
    links = []
    for place, (operators, after) in enumerate(chain):
        ends = {tensors[place]: str(place), after: str(place + 1)}
        own = [left[name] for name in operators if name in left]
        links.append([_renamed(relation, ends, f" of link {place}") for relation in own])
    try:
        layouts = solve_exact(flattened.from_iterable(links))
    except InfeasibleError:
        operators = next(chain[end - 1][0] for end in range(1, len(links) + 1) if not _fits(links[:end]))
        raise InfeasibleError(f"no path leads through {' and '.join(operators)}", "split more variables") from None
    found: dict[str, set[str]] = {}
    for place, name in enumerate(tensors):
        found.setdefault(name, set()).add(layouts[str(place)])
    return {name: next(iter(options)) for name, options in found.items() if len(options) == 1}


def _renamed(relation: Relation, ends: Mapping[str, str], behind: str) -> Relation:
    return replace(relation, variables=tuple(ends.get(name, name + behind) for name in relation.variables))


def _fits(links: Iterable[Iterable[Relation]]) -> bool:
    try:
        return bool(solve_exact(flattened.from_iterable(links)))
    except InfeasibleError:
        return False


def solve_by_paths(
    given: list[Relation], strategy: str, split: tuple[str, ...] = (), attention: str = "explicit"
) -> dict[str, str]:
    """The layouts that a published strategy finds; with `split`, the best over all layouts of these tensors.

    A tensor whose layout is that of another one is split as that one: published names are those of all tensors.

    Raises:
        InfeasibleError: if the paths allow no whole layer.
    """
    left = consistent(given)
    seen, names = layouts_seen(left), tuple(dict.fromkeys(map(variable_of, split)))
    options = [seen[name] for name in names]
    best: tuple[float, dict[str, str]] | None = None
    refusal: InfeasibleError | None = None
    for choice in product(*options):
        try:
            layouts = _by_paths(left, strategy, dict(zip(names, choice, strict=True)), attention)
        except InfeasibleError as error:
            refusal = error
            continue
        time = time_of(left, layouts)
        best = (time, layouts) if best is None or time < best[0] else best
    if best is None:
        raise InfeasibleError(f"{strategy} finds no plan: {refusal}", "split variables, or choose exactly")
    return best[1]


def _by_paths(given: list[Relation], strategy: str, bound: dict[str, str], attention: str) -> dict[str, str]:
    """The layouts of one strategy, where some layouts are fixed."""
    forward, backward = (chain_of(chain, attention) for chain in (FORWARD_CHAIN, BACKWARD_CHAIN))
    order = (forward, backward) if strategy == "fp_first" else (backward, forward)
    found = dict(bound)
    for chain in order:
        under = bound if strategy == "combined" else found
        for name, layout in solve_path(given, chain, under).items():
            if found.setdefault(name, layout) != layout:
                raise InfeasibleError(f"the two paths want {name} as {found[name]} and as {layout}")
    return solve_exact([*given, *chosen(found)])
