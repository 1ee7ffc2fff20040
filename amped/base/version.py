"""The version of amped, which findings and calibrations are kept with."""

__version__ = "0.1.0"
