"""What every room may stand on: how mistakes are told, units, files, other names, the version."""
