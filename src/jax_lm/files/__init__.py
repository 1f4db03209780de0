"""Files that several processes write: whole or not at all, one at a time."""
