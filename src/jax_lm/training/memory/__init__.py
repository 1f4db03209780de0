"""How much memory and how many operations a training step takes, known before it runs."""
