"""From a config to the sources of all values: the config is read and checked, and joined with table rows and options.

`config.py` is the only reader of configs: no other file sees the raw dictionary.
"""
