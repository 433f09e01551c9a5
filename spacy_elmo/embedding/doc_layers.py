"""Layers that a Doc keeps for listeners.

`doc._.elmo` contains the layers of the pipe that stored last. The layers of earlier pipes are kept
beside them.
"""

import warnings
from collections.abc import Iterator
from typing import Optional, cast

from spacy.tokens import Doc
from thinc.types import Floats3d

# Keys of user_data. spaCy keeps the value of an extension `elmo` under the first.
LAYERS = ("._.", "elmo", None, None)
OWNER = "elmo_owner"  # name of the pipe that stored the layers, and identity of its weights
OTHERS = "elmo_others"  # the layers of other pipes, by owner


def get_layers(doc: Doc, pipe: str, weights: Optional[str] = None) -> Optional[Floats3d]:
    """Find the layers of one pipe.

    doc (Doc): The Doc.
    pipe (str): Name of the pipe.
    weights (Optional[str]): Identity of its weights; None for any. Layers that a user put
        into `doc._.elmo` match every pipe, but no weights.
    RETURNS (Optional[Floats3d]): *Shape:* `(L + 1, n_tokens, 2P)`; None if there are none.
    """
    for owner, layers in _held(doc):
        name, _, identity = owner.rpartition(" ")
        if (name == pipe and weights in (None, identity)) or (not owner and weights is None):
            return layers
    return None


def store_layers(doc: Doc, layers: Floats3d, pipe: str, weights: str) -> None:
    """Set `doc._.elmo`, and keep what other pipes stored for their listeners.

    doc (Doc): The Doc.
    layers (Floats3d): *Shape:* `(L + 1, n_tokens, 2P)`
    pipe (str): Name of the pipe.
    weights (str): Identity of its weights.
    """
    others = {
        owner: values for owner, values in _held(doc) if owner and owner.rpartition(" ")[0] != pipe
    }
    doc.user_data.pop(OTHERS, None)
    doc.user_data.update({LAYERS: layers, OWNER: f"{pipe} {weights}"})
    if others:
        doc.user_data[OTHERS] = others


def _held(doc: Doc) -> Iterator[tuple[str, Floats3d]]:
    """Yield owners and layers. The owner of layers that a user set is ""."""
    if doc.user_data.get(LAYERS) is not None:
        yield doc.user_data.get(OWNER, ""), doc.user_data[LAYERS]
    yield from doc.user_data.get(OTHERS, {}).items()


def last_layers(doc: Doc) -> Optional[Floats3d]:
    """Return the layers of the pipe that stored last, or None."""
    return cast(Optional[Floats3d], doc.user_data.get(LAYERS))


def _get(doc: Doc) -> Optional[Floats3d]:
    # A user who set None has freed the layers, and knows why they are gone.
    if LAYERS not in doc.user_data:
        warnings.warn(
            "doc._.elmo is None: the pipe 'elmo' did not store its layers. Add it with "
            'config={"store_layers": True}; by default it stores them if a component listens',
            stacklevel=3,
        )
    return last_layers(doc)


def _set(doc: Doc, layers: Optional[Floats3d]) -> None:
    """Set the layers. `doc._.elmo = None` frees the layers of all pipes."""
    for key in (OWNER, OTHERS):
        doc.user_data.pop(key, None)
    doc.user_data[LAYERS] = layers


if not Doc.has_extension("elmo"):
    Doc.set_extension("elmo", getter=_get, setter=_set)
