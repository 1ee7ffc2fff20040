"""The time of a message on a network.

This chapter takes the collectives, and the links of the machine. It gives the duration of each collective.

    time of a call = overhead + steps × latency + bytes moved / bandwidth of the group

The page `electrical` has two tiers: the fast domain, and the network across nodes. The page `optical` has optical
circuits that are reconfigured. Each of these pages has two tables. `TIMES` gives the equation for each kind of
collective. `ALGORITHMS` has the ways to run a collective; the fastest one counts. Both pages give one record, the
network. The page `durations` asks it for the time of every message, and the page `dispatchers` has kernels that
send tokens to their experts by themselves.
"""

PAGES = ("electrical", "optical", "durations", "dispatchers")

# What other chapters and rooms may name, by page; and the parameters that a config lists.
HANDS_ON = (
    # electrical
    "inter_accelerator_link",
    "inter_node_link",
    "network",
    # durations
    "tensor_durations",
    "context_durations",
    "expert_durations",
    "grid_column_durations",
    "expert_tensor_durations",
    "output_head_panel_durations",
    "tied_embedding_durations",
    "data_durations",
    "optimizer_message_durations",
    "pipeline_durations",
)
