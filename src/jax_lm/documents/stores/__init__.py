"""Documents with random access by one integer: SQLite + zstd files, and MongoDB."""
