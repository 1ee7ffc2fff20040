"""The search of the design space: valid mappings on a joint axis, evaluated block by block and ranked."""
