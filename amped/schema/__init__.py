"""Data of the config's contract: its JSON Schema and the names it goes by elsewhere."""
