"""An estimate as a page: what stands on it, as plain data, and the file that a browser opens.

What stands on a page (`content.py`) knows no browser and no framework: numbers with their names, tables, pictures as data,
and words. Each topic has a file that makes its section from an estimate. `writing.py` makes one file of them.
"""
