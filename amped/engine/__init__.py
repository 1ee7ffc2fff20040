"""From names to numbers: which formula gives each value, in what order, and what comes out.

One configuration and a joint axis of millions run through the same plan and the same formulas.
"""
