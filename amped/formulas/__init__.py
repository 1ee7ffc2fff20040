"""The theory, a page for each topic; the functions meet by name, see `amped.catalogue`."""
