"""Talking to a model in a terminal: one that is loaded here, or one that a server runs."""
