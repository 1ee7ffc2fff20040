"""Lookup tables: amped reads the .json files of this folder."""
