"""These scripts convert the corpora, and prepare text for the language model."""
