"""Engine for frozen weights on a CPU: NumPy and a compiled kernel, without PyTorch and spaCy."""
