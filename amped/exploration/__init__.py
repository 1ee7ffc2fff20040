"""The design space: valid mappings on a joint axis, evaluated in blocks and ranked."""
