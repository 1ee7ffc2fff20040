"""The only reader of lookup tables: the shipped tables, the user's own tables, and rows that extend other rows."""
