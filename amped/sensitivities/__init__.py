"""How much a result changes with each parameter: all of them varied one at a time, side by side on one axis."""
