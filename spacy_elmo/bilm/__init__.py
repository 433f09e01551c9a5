"""Trainable bidirectional language model in PyTorch, without spaCy and Thinc."""
