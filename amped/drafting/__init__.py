"""What nobody gave is chosen here."""
