"""From requests to tokens to text: the thread that decodes, and who waits for what it writes."""
