"""SentencePiece models: read, converted and trained."""
