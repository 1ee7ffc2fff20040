"""The theory as a book: a folder for each chapter, read in the order of `CHAPTERS` in `catalogue.py`.

Formulas are pure functions, wired by the names of their arguments. `quantity.py` has the marks that make a function a
formula, the files `*records.py` have the frozen records for plural things, and `catalogue.py` collects and checks all
formulas.
"""
