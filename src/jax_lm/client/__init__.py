"""A running server, asked from here."""
