"""One GPT layer as rungs that share parameters, from plain torch to fp8, like Transformer Engine's quickstart."""
