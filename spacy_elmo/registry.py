"""Registries of this package: `@segmenters`, `@weights_readers` and `@feature_caches`."""

import catalogue
from spacy import registry

# `registry.create` would search for entry points of Thinc, not of spaCy.
for _name in ("segmenters", "weights_readers", "feature_caches"):
    if not hasattr(registry, _name):
        setattr(registry, _name, catalogue.create("spacy", _name, entry_points=True))

__all__ = ["registry"]
