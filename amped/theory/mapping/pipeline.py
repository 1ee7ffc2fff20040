"""The pipeline: its schedule, and how layers are laid out over stages and chunks."""
