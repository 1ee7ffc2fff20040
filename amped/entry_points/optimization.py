"""AMPeD's entry point `python -m amped.optimization`: the verb `amped explore` with the same flags."""

from amped.cli.app import main

if __name__ == "__main__":
    main("explore")
