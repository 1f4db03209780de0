"""Several processes as one run: finding one another, agreeing, and noticing a loss."""
