"""The theory as a book: a folder for each chapter, in the order of `CHAPTERS` in `catalogue.py`.

Formulas are pure functions. The names of their arguments are the names of the quantities that they need. `quantity.py`
has the marks that make a function a formula. The files `*records.py` have the frozen records for plural things.
`catalogue.py` collects and checks all formulas.
"""
