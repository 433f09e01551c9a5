"""Thinc layers: language model, listener, mix, concatenation, objective of `spacy pretrain`."""
