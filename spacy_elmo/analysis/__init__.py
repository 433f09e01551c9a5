"""Analysis of models: probes, word senses, nearest tokens, substitutes, robustness."""
