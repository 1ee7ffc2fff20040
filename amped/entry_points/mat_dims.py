"""AMPeD's entry point `python -m amped.mat_dims`: the verb `amped mat-dims` with the same flags."""

from amped.cli.app import main

if __name__ == "__main__":
    main("mat-dims")
