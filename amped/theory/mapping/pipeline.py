"""The pipeline: its schedule, and which layers are on which stages and chunks."""
