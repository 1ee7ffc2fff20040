"""One GPT layer as rungs that share parameters, from plain torch to fp8: Transformer Engine's quickstart without it."""
