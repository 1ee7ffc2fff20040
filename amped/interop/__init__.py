"""Other people's configs: they are read into amped's names, and amped's mappings are written as theirs.

Each format is read by pure functions from text to an `Imported`: values by canonical name, and a report of what was used,
ignored, defaulted and what amped cannot express. `fields.json` has a row for each quantity with its name in every format,
which both directions read. Nothing is executed and nothing is fetched.
"""

# The file of a network in a folder of Hugging Face's.
CONFIG = "config.json"
