"""Analysis of layers: probes, word senses, nearest tokens and substitutes."""
