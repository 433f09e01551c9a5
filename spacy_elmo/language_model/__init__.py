"""Language model: a biLM with its softmax, for training, perplexity and sampling."""
