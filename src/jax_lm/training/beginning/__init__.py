"""What a run begins with: fresh or given weights, or a checkpoint."""
