"""The version of amped, which is written into findings and calibrations."""

__version__ = "0.1.0"
