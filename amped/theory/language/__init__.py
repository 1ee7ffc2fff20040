"""What the book is written in: the marks, the tables of parameters, and the catalogue of all formulas.

`quantity` has the marks, `parameter_tables` reads rows of parameters, `catalogue` collects and checks all formulas and
has the order of the chapters. `doors` says what a chapter keeps to itself, and `sources` in which file and line a
formula stands.
"""
