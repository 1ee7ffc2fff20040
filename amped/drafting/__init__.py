"""Drafts a new config for `amped init`, and chooses what nobody gave."""
