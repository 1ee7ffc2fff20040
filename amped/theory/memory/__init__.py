"""What the fullest accelerator holds: states, activations and buffers, and the largest micro-batch."""

PAGES = ("states", "fullest_middle_stage", "activations", "buffers", "fullest_stage", "host", "largest_microbatch")
