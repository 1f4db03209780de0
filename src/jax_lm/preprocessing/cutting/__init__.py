"""Tokens of documents -> rows: one module a mode, pure functions of a shard."""
