"""Experiments: scripts that train and probe with and without ELMo, and store the scores."""
