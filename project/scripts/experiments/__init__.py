"""These scripts train and probe, with and without ELMo, and write down each run's figures."""
