"""Encoders: programs that cut text into ids, one of which is chosen by what it gives."""
