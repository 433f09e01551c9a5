"""The biLM with its softmax, and its perplexity on text."""
