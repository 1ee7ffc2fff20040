"""Coefficients, and how they are fitted to measured times."""
