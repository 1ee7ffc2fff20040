"""The only reader of lookup tables: shipped ones, those of the user, and rows that derive from others."""
