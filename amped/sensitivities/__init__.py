"""How much a result changes with each parameter: all are varied one at a time, side by side on one axis."""
