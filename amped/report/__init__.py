"""The only room that prints, plots or rounds: a file for each kind of answer."""
