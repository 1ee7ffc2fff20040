"""How long a message takes: collectives on electrical networks and on optical circuits."""

PAGES = ("electrical", "optical")
