"""How long a message takes on a network.

Takes the collectives, and the links of the machine. Hands on the duration of each collective.

    time of a call = overhead + steps × latency + bytes moved / bandwidth of the group

`electrical` has two tiers, the fast domain and the network across nodes; `optical` has circuits that are set anew. Each
page has a table `TIMES` from the kind of a collective to its equation, and a table `ALGORITHMS` of ways to run it, of
which the fastest counts. Both hand on one record, the network. `durations` asks it for the time of every message.
"""

PAGES = ("electrical", "optical", "durations")
