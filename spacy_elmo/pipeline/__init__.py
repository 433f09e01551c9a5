"""Pipe `elmo`: contextual vectors in a spaCy pipeline, and its training."""
