"""The parts of a step, and the totals: training time, utilization, goodput, energy and cost."""

PAGES = ("parts", "overlap", "offload", "flops", "totals", "goodput", "cost")
