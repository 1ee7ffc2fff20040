"""Measurements of trainings, published and our own: read, turned into configs, and compared with predictions."""
