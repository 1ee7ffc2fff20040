"""The operators of an optimizer step, and what each optimizer keeps for a parameter."""

PAGES = ("adam", "sgd", "none", "update")
