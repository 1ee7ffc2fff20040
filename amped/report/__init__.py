"""The only room that prints, plots or rounds."""
