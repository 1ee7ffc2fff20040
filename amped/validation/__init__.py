"""Published and own measurements of trainings: read, made into configs, and brought beside what amped predicts."""
