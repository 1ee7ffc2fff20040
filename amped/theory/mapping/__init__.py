"""How the work is laid over the machine: groups, their placement in the fast domain, grids, shards, micro-batches."""

PAGES = ("degrees", "placement", "grid", "context", "sharding", "pipeline", "offload", "overlap", "experts", "rules")
