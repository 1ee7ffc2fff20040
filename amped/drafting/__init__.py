"""A new config for `amped init`: what nobody gave is chosen here."""
