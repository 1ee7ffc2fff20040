"""What each pipeline stage holds: layers, parameters, and those that one accelerator updates."""

PAGES = ("layers", "parameters")
