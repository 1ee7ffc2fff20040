"""Which collective, how many bytes, in which group: what each kind of parallelism sends."""

PAGES = ("tensor", "summa", "context", "experts", "data", "pipeline")
