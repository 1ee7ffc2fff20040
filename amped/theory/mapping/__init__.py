"""How the work is laid over the machine.

Takes the inputs. Hands on the size of each parallel group, how much of it lies inside the fast domain ("node"), the
micro-batches of a replica, shards, grids, switches for overlap and offload, and the first rules.

    number_of_accelerators = data × tensor × pipeline × context        (expert groups lie inside data × context ×
    tensor) a degree               = its part inside the fast domain × its part across nodes

`degrees` and `placement` have these equations; `grid` cuts tensor parallelism into rows × columns, `sharding` cuts
states by ZeRO, `groups` has the groups that messages go through, `experts` says how many accelerators and nodes a
token's experts are on. A rule is a boolean that must hold. It stands in the chapter of its last argument, so `rules`
has those that need no more than inputs and mapping.
"""

PAGES = (
    "degrees",
    "placement",
    "grid",
    "context",
    "sharding",
    "groups",
    "pipeline",
    "offload",
    "overlap",
    "experts",
    "rules",
)
