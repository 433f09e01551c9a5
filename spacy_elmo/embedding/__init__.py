"""Steps from a Doc to its vectors: segments, batches, layers, vectors."""
