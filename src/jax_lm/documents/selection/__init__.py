"""Which documents are kept, and what of their text; sources mixed in shares."""
