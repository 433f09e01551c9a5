"""Scripts that evaluate and package whole pipelines."""
