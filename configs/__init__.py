"""Configs that come with amped; every file is estimable. Read them with `importlib.resources`."""
