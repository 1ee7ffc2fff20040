"""From a config to the sources of all values: read, checked, and brought together with tables and options."""
