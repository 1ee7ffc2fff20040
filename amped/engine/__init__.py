"""From names to numbers: which formula gives each value, in what order, and with what result.

One configuration and a joint axis of millions of them use the same plan and the same formulas.
"""
