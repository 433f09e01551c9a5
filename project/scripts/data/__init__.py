"""Scripts that convert corpora to .spacy files and prepare text for pretraining."""
