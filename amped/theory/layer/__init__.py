"""A layer for one micro-batch: its passes, what overlaps, what is waited for, and what is offloaded."""

PAGES = ("passes", "overlap", "offload", "times")
