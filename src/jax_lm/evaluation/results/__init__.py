"""What was found: numbers with intervals, tables, files, plots."""
