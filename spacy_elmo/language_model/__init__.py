"""The biLM with its softmax: text in windows, perplexity, processes."""
