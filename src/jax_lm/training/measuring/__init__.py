"""What a run costs and does: tokens a second, memory, gradients, a trace."""
