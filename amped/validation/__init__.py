"""Published and own measurements of trainings: read, made into configs, and set beside what amped predicts."""
