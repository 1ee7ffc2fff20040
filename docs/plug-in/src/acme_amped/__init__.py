"""Acme's accelerators, models and formulas for amped."""
