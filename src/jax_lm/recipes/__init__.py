"""Whole runs as functions: each docstring says what it costs and what it should reach."""
