"""Frozen weights on a CPU: numpy and a kernel of our own, without PyTorch and spaCy."""
