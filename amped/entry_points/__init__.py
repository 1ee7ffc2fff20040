"""AMPeD's entry points, `python -m amped.main` and so on: this folder is on the path of the package `amped`."""
