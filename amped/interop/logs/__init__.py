"""Logs of training runs: steps, memory and settings as a framework printed them, read line by line.

A log is evidence of one run. What it says is read as it stands: nothing is guessed, and what is left out is told. The
formats are rows of `formats.json`.
"""
