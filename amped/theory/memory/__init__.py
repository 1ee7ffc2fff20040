"""What the fullest accelerator holds: states, activations and buffers, and the largest micro-batch."""

PAGES = ("states", "layouts", "activations", "buffers", "fullest_stage", "host", "largest_microbatch")
