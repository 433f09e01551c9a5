"""The biLM with its softmax: perplexity, sampling, and the processes of a training run."""
