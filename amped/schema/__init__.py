"""Data of the config's contract: its JSON Schema, other spellings of its names, and the names it had before."""
