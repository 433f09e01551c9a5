"""Engine for frozen weights on a CPU: numpy and its own kernel, without PyTorch and spaCy."""
