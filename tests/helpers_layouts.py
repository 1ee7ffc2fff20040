"""Random times for every layout of a layer, and the plans that they lead to."""

import random

from amped.kernels.layouts.graph import Relation, consistent
from amped.kernels.layouts.plan import Plan
from amped.kernels.layouts.spec import LAYERS, Dimensions
from amped.kernels.layouts.table import Table
from amped.kernels.layouts.variables import row_names, rows_of, variables_of

SMALL = Dimensions(2, 5, 3, 12, 7)
MEASURED = {"device": "a made-up device", "device_type": "cpu", "dtype": "float32", "dropout": 0.0,
            "flop_rate": 1e12, "bandwidth": 1e11}  # fmt: skip


def random_relations(seed, layer="explicit"):
    """Every operator of a layer with a random time for each row."""
    draw = random.Random(seed)
    return [
        Relation(o.name, variables_of(o), {choice: draw.lognormvariate(3, 1) for choice in rows_of(o)})
        for o in LAYERS[layer]
    ]


def random_plan(seed, dimensions=SMALL, layer="explicit"):
    """A plan that takes any row that some whole layer has: bound one tensor after the other, in random order."""
    draw = random.Random(seed)
    left = consistent([Relation(o.name, variables_of(o), dict.fromkeys(rows_of(o), 1.0)) for o in LAYERS[layer]])
    names = sorted({name for relation in left for name in relation.variables})
    draw.shuffle(names)
    layouts = {}
    for name in names:
        options = sorted(next(r.seen_on((name,)) for r in left if name in r.variables))
        layouts[name] = draw.choice(options)[0]
        left = consistent(left, {name: layouts[name]})
    return Plan(dimensions, layouts, layer)


def random_table(seed, layer="explicit", dimensions=SMALL):
    """A table of random times over the rows whose parts agree."""
    from amped.kernels.layouts.variables import layout_of

    rows = []
    for relation, operator in zip(random_relations(seed, layer), LAYERS[layer], strict=True):
        for choice, time in relation.times.items():
            chosen = dict(zip(relation.variables, choice, strict=True))
            laid = {n: layout_of(n, chosen) if operator.einsum else chosen[n] for n in row_names(operator)}
            rows.append({"op": operator.name, "impl": "made up", "layouts": laid, "time_us": time, "p10": time,
                         "p90": time, "n": 1})  # fmt: skip
    return Table(dimensions, MEASURED, rows)
