"""AMPeD's entry point `python -m amped.scenario_summary`: the verb `amped scenario-summary` with the same flags."""

from amped.cli.app import main

if __name__ == "__main__":
    main("scenario-summary")
