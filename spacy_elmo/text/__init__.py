"""Text files, as sentences and as ids."""
