"""A model behind HTTP: continuous batching, streaming, a chat page."""
