"""Features -> device-ready batches: the order of data is arithmetic."""
