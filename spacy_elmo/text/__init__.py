"""From text files to sentences, and from sentences to ids."""
