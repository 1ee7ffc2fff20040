"""How the work is mapped to the machine.

This chapter takes the inputs. It gives the size of each parallel group, the part of each group inside the fast domain
("node"), the micro-batches of a replica, the shards of ZeRO, the grid of tensor parallelism, the switches for overlap
and offload, and the first rules.

    number_of_accelerators = data × tensor × pipeline × context
    a degree               = its part inside the fast domain × its part across nodes

Expert groups lie inside data × context × tensor, so the expert-parallel degree is no factor of the first equation.

The pages `degrees` and `placement` have these equations. `grid` splits tensor parallelism into rows × columns.
`sharding` splits the model states by ZeRO. `groups` has the groups through which messages go. `experts` tells on how
many accelerators and nodes the experts of a token are. A rule is a boolean that must be true. A rule stands in the
chapter of its last argument, so the page `rules` has the rules that need only inputs and mapping.
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
