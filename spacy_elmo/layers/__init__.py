"""Thinc layers, one a file."""
