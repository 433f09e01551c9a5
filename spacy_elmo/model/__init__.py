"""Definition of a language model without computation: sizes, vocabularies, ids and packing."""
