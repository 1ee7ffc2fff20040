"""The theory as a book: a folder for each chapter, in the order of `CHAPTERS` in `language/catalogue.py`.

Formulas are pure functions. The names of their arguments are the names of the quantities that they need. `language/`
has the marks that make a function a formula, and the catalogue that collects and checks all formulas. `nouns/` has the
frozen records for plural things, and the tables of facts that several chapters name.
"""
