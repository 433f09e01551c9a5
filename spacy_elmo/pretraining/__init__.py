"""Pretraining of the language model."""
