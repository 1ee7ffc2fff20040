"""The only reader of lookup tables."""
