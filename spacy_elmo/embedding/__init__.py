"""What happens to a Doc: segments, batches, layers, vectors."""
