"""Text files, sentences, and corpora of token ids."""
