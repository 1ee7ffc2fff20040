"""Lookup tables that come with amped: facts with their sources."""
