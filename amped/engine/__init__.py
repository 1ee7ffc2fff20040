"""From names to numbers: which formulas, in what order, and what comes out."""
