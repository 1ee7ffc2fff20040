"""The theory as a book: the marks, the records, the catalogue, and a folder for each chapter."""
