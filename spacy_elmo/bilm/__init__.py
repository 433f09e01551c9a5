"""The bidirectional language model, in PyTorch alone (no spaCy, no Thinc)."""
