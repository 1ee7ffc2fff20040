"""The operators of feed-forward networks: dense ones, and mixtures of experts."""

PAGES = ("dense", "experts", "expert_extras")
