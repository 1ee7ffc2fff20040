"""The coefficients that may be fitted, with their bounds, and how they are fitted to measured times."""
