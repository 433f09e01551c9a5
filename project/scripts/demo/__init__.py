"""Demo: generated data, and a report on what a language model learned from them."""
