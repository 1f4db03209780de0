"""Every token's score: windows, rows, outputs; sums by document."""
