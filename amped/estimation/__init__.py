"""One estimate: its results, the rules that it must keep, the origin of each value, and how sure it is.

This room also has the table of operators, the compute graph, the executed timeline, the comparison of two configs, and
the check of tables. All answers are data; `report` prints them.
"""
