"""Pretraining and evaluation of the language model."""
