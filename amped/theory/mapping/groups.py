"""Groups: the accelerators that communicate with one another, with their parts inside the fast domain and across nodes.

Each kind of message goes through one of these groups (`messages/`). The parts of a group are quantities of the pages
`placement`, `grid` and `sharding`.
"""

from amped.theory.language.quantity import family, records
from amped.theory.nouns.parallelisms import PARALLELISMS
from amped.theory.nouns.records import Group

# The groups by kind. Each has the parts, inside and across nodes, of the quantity that is named here. The groups of
# tensor and data parallelism are the rows of the grid and the replicas.
GROUPS = {kind: f"{kind}_parallel_degree" for kind in PARALLELISMS if kind not in ("tensor", "data")} | {
    "row": "tensor_parallel_rows",
    "column": "tensor_parallel_columns",
    "expert_tensor": "expert_tensor_parallel_degree",
    "replica": "replicas",
    "expert_replica": "expert_replicas",
    "shard": "shards",
}


@family(
    named=(
        "pipeline_group",
        "context_group",
        "expert_group",
        "row_group",
        "column_group",
        "expert_tensor_group",
        "replica_group",
        "expert_replica_group",
        "shard_group",
    ),
    KIND=tuple(GROUPS),
    DEGREE=tuple(GROUPS.values()),
)
@records()
def KIND_group(intra_node_DEGREE, inter_node_DEGREE, *, kind):
    """The KIND group: the number of its accelerators inside a node, and the number of its nodes. Source: definition."""
    return (Group(kind, intra=intra_node_DEGREE, inter=inter_node_DEGREE),)
