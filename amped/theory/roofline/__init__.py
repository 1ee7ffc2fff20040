"""How long an operator takes: rates that kernels sustain, and the time of a kernel of each kind."""

PAGES = ("rates", "kernels")
