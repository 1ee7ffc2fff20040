"""Runs `python -m amped`."""

from amped.cli.app import main

if __name__ == "__main__":
    main()
