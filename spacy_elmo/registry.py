"""The registries of this package, beside spaCy's: `@segmenters`, `@weights_readers`
and `@feature_caches`."""

import catalogue
from spacy import registry

# Not registry.create, which looks for entry points of Thinc's, not of spaCy's.
for _name in ("segmenters", "weights_readers", "feature_caches"):
    if not hasattr(registry, _name):
        setattr(registry, _name, catalogue.create("spacy", _name, entry_points=True))

__all__ = ["registry"]
