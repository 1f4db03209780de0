"""Files as sources of documents: where they are stored, how packed, which format."""
