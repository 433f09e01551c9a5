"""Text: readers of text files, and corpora of token ids."""
