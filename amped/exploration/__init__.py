"""The design space: valid mappings on a joint axis, evaluated in blocks, ranked, on one process or on many."""
