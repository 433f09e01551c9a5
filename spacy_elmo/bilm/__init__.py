"""Bidirectional language model to train, in PyTorch without spaCy and Thinc."""
