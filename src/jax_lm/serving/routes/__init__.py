"""What each address does."""
