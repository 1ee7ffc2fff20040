"""From a config to the sources of all values: read, checked, and brought together with table rows and options.

`config.py` is the only reader of configs: no other file sees the raw dictionary.
"""
