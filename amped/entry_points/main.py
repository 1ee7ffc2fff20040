"""AMPeD's entry point `python -m amped.main`: the verb `amped estimate` with the same flags, printed in full."""

from amped.cli.app import main

if __name__ == "__main__":
    main("estimate", "--full", "--save")
