"""The registries of this package, beside spaCy's: `@segmenters` and `@weights_readers`."""

from spacy import registry

for _name in ("segmenters", "weights_readers"):
    if not hasattr(registry, _name):
        registry.create(_name, entry_points=True)

__all__ = ["registry"]
