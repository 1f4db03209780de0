"""Numbers with their definition attached: loss, perplexity, accuracy, bits per byte."""
