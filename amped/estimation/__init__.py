"""One estimate: its results, the rules it must keep, where each value comes from, and how sure it is.

Here are also the table of operators, the compute graph, the executed timeline, the comparison of two configs, and the check of
tables. All answers are data; `report` prints them.
"""
