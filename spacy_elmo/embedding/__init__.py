"""Code between a Doc and its vectors: segmenters, batches, cache of layers, vector hooks."""
