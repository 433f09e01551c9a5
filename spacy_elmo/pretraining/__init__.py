"""Pretraining of a language model on text: settings, training loop, checkpoints and output."""
