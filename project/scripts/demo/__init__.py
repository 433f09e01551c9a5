"""The demo generates its own data, and shows what a language model knows."""
