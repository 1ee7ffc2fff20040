"""AMPeD's entry points, `python -m amped.main` and so on: the package `amped` has this folder on its path."""
