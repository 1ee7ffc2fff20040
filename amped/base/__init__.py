"""What every room may stand on: errors, units, files, other names of the same thing, the version."""
