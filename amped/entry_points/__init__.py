"""AMPeD's entry points, which are modules of `amped` itself: `python -m amped.main` and so on."""
