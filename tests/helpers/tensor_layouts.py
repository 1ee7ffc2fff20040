"""Random times for every layout of a layer, and the plans that they lead to."""

import random
from collections.abc import Iterator, Mapping
from functools import cache
from typing import Any

from amped.kernels.layer_shape import Dimensions
from amped.kernels.tensor_layouts.graph import Relation, consistent
from amped.kernels.tensor_layouts.plan import Plan
from amped.kernels.tensor_layouts.spec import CONTRACTION, ENCODER, LAYERS, SLICES
from amped.kernels.tensor_layouts.table import Table
from amped.kernels.tensor_layouts.variables import row_names, rows_of, variables_of

CONTRACTIONS = tuple(operator for operator in ENCODER if operator.kind == CONTRACTION)
SMALL = Dimensions(2, 5, 3, 12, 7)
MEASURED = {"device": "a made-up device", "device_type": "cpu", "dtype": "float32", "dropout": 0.0,
            "flop_rate": 1e12, "bandwidth": 1e11}  # fmt: skip


def random_relations(seed: int, layer: str = "explicit") -> list[Relation]:
    """Every operator of a layer with a random time for each row."""
    draw = random.Random(seed)
    return [
        Relation(o.name, variables_of(o), {choice: draw.lognormvariate(3, 1) for choice in rows_of(o)})
        for o in LAYERS[layer]
    ]


def chosen(layouts: Mapping[str, str]) -> list[Relation]:
    """Layouts that are chosen already, as relations with one row each."""
    return [Relation(f"the choice of {name}", (name,), {(layout,): 0.0}) for name, layout in layouts.items()]


def random_plan(seed: int, dimensions: Dimensions = SMALL, layer: str = "explicit") -> Plan:
    """A plan that takes any row that some whole layer has: bound one tensor after the other, in random order."""
    return Plan(dimensions, dict(_random_layouts(seed, layer)), layer)


@cache
def _random_layouts(seed: int, layer: str) -> dict[str, str]:
    draw = random.Random(seed)
    left = consistent([Relation(o.name, variables_of(o), dict.fromkeys(rows_of(o), 1.0)) for o in LAYERS[layer]])
    names = sorted({name for relation in left for name in relation.variables})
    draw.shuffle(names)
    layouts = {}
    for name in names:
        options = sorted(next(r.seen_on((name,)) for r in left if name in r.variables))
        layouts[name] = draw.choice(options)[0]
        left = consistent([*left, *chosen({name: layouts[name]})])
    return layouts


def random_table(seed: int, layer: str = "explicit", dimensions: Dimensions = SMALL) -> Table:
    """A table of random times over the rows whose parts agree."""
    from amped.kernels.tensor_layouts.variables import layout_of

    rows = []
    for relation, operator in zip(random_relations(seed, layer), LAYERS[layer], strict=True):
        for choice, time in relation.times.items():
            chosen = dict(zip(relation.variables, choice, strict=True))
            laid = {n: layout_of(n, chosen) if operator.einsum else chosen[n] for n in row_names(operator)}
            rows.append({"op": operator.name, "impl": "made up", "layouts": laid, "time_us": time, "p10": time,
                         "p90": time, "n": 1})  # fmt: skip
    return Table(dimensions, MEASURED, rows)


def differences(
    name: str, dimensions: Dimensions, dtype: Any, device: str, keep: float, most: int | None = None
) -> Iterator[float]:
    """The largest difference of a Triton kernel from the reference in each of its lean layouts, or in `most` of them.

    It is relative to a tensor's largest value where that is more than 1: a rounding step of the format grows with it.
    """
    import torch

    from amped.kernels.tensor_layouts import fused, triton_launch
    from amped.kernels.tensor_layouts.fused import MASKS, Choices
    from amped.kernels.tensor_layouts.workspace import Workspace

    operator = next(o for o in ENCODER if o.kernel == name)
    like, choices = {"dtype": dtype, "device": device}, Choices(keep, activation="gelu")
    rows = rows_of(operator)
    for row in rows[:: -(-len(rows) // most) if most else 1]:
        torch.manual_seed(0)
        layouts = dict(zip(variables_of(operator), row, strict=True))
        space = Workspace(dimensions.sizes, layouts, like, choices, fused.KERNELS)
        for tensor in operator.arguments:
            if tensor in MASKS.values():
                space.tensor(tensor).bernoulli_(keep)
            elif tensor not in SLICES:
                space.tensor(tensor).normal_()
        before = {tensor: values.clone() for tensor, values in space.tensors.items()}
        found = []
        for kernels in (fused.KERNELS, triton_launch.KERNELS):
            for tensor, values in before.items():
                space.tensors[tensor].copy_(values)
            fused_call = [space.view(tensor) for tensor in operator.arguments]
            if name == "softmax" and keep == 1.0:
                fused_call[2] = None
            kernels[name](*fused_call, choices)
            found.append({tensor: values.clone() for tensor, values in space.tensors.items()})
        yield max(_off(found[1][t].float(), found[0][t].float()) for t in before if t not in MASKS.values())


def _off(found: Any, exact: Any) -> float:
    return float((found - exact).abs().max() / exact.abs().max().clamp_min(1.0))
