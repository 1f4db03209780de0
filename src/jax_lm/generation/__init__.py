"""Text from a model: sampling, and decoding with a cache of keys and values."""
