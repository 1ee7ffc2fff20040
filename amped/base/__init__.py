"""What every room may use: errors, units, files, other names for one thing, the version."""
