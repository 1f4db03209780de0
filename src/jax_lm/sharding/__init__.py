"""Where arrays live: a mesh of devices, and the rules that place axes by name on it."""
