"""Single layers: the rungs of the ladder from plain torch to fp8, and published times and batches beside estimates."""
