"""Use of the cache of features in training: read layers from it, and compute the missing ones.

`embedding.features` describes the cache.
"""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from spacy.tokens import Doc
from thinc.types import Floats3d

from ..embedding.features import FeatureCache, Piece, cut_doc
from ..embedding.segmenters import Segment


def kept_layers(
    shim: Any,
    cache: FeatureCache,
    docs: Sequence[Doc],
    segments: Sequence[Sequence[Segment]],
    compute: Callable[[list[tuple[Doc, Piece]]], list[Floats3d]],
    *,
    is_train: bool,
) -> list[Floats3d]:
    """Return the layers of Docs from the cache. Compute the layers that it does not contain.

    shim (BiLMShim): The shim with the language model.
    cache (FeatureCache): The cache.
    docs (Sequence[Doc]): The Docs.
    segments (Sequence[Sequence[Segment]]): The segments of each Doc.
    compute (Callable[[List[Tuple[Doc, Piece]]], List[Floats3d]]): Function that returns, for each
        piece of a Doc, the layers of its kept tokens. It is called at most once, with the pieces
        that are not in the cache.
    is_train (bool): Whether to add computed layers to the cache now. If False, `BiLMShim.keep` can
        add them later.
    RETURNS (List[Floats3d]): *Shape:* `(L + 1, n_tokens, 2P)` each.
    """
    config, model = shim.bilm.config, shim.features_model()
    cache.use_model(model)
    carry = shim.settings.initial_state == "carry"
    pieces = [cut_doc(doc, cut, model, carry=carry) for doc, cut in zip(docs, segments)]
    shapes = {
        one.key: (config.n_layers + 1, one.kept.stop - one.kept.start, config.width)
        for cut in pieces
        for one in cut
    }
    found = zip(shapes, cache.get(list(shapes), list(shapes.values())))
    known = {key: layers for key, layers in found if layers is not None}
    each = [(doc, one) for doc, cut in zip(docs, pieces) for one in cut]
    # Pieces with the same key have the same layers, so compute only one of them.
    missing = {one.key: (doc, one) for doc, one in each if one.key not in known}
    if missing:
        computed = dict(zip(missing, compute(list(missing.values()))))
        known |= computed
        if is_train:
            cache.add(list(computed), list(computed.values()))
    # Remember the pieces that `BiLMShim.keep` may add. This replaces those of an earlier call.
    for doc, cut in zip(docs, pieces):
        shim.waiting[doc] = [] if is_train else [one for one in cut if one.key in missing]
    # `concatenate` copies, so that no two Docs share memory.
    nothing = np.zeros((config.n_layers + 1, 0, config.width), dtype="float32")
    return [np.concatenate([nothing, *(known[one.key] for one in cut)], axis=1) for cut in pieces]
