"""Layers that `elmo` pipes store on a Doc, and the custom attribute `doc._.elmo`.

`doc._.elmo` contains the layers of the last `elmo` pipe. If a pipeline has several, the Doc also
keeps the layers of the earlier pipes, under another key of `doc.user_data`. Each array is stored
with the name of its pipe and the identity of the weights, so that outdated layers are not read.
"""

import warnings
from collections.abc import Iterator
from typing import Optional, cast

from spacy.tokens import Doc
from thinc.types import Floats3d

from ..compat import extension_key

# Keys of `doc.user_data`.
LAYERS = extension_key("elmo")
OWNER = "elmo_owner"  # Value: name of the pipe that stored the layers, and identity of its weights.
OTHERS = "elmo_others"  # Value: dict from the owners to the layers of earlier pipes.


def get_layers(doc: Doc, pipe: str, weights: Optional[str] = None) -> Optional[Floats3d]:
    """Return the layers that a pipe has stored on a Doc.

    weights (Optional[str]): Identity of the pipe's weights (`BiLMShim.identity`): layers of other
        weights are ignored. None: the layers can be of any weights, or from a user who has set
        `doc._.elmo`.
    RETURNS (Optional[Floats3d]): None if the Doc has none. *Shape:* `(L + 1, n_tokens, 2P)`
    """
    for owner, layers in _held(doc):
        # The name of a pipe may contain spaces, the identity contains none.
        name, _, identity = owner.rpartition(" ")
        if (name == pipe and weights in (None, identity)) or (not owner and weights is None):
            return layers
    return None


def store_layers(doc: Doc, layers: Floats3d, pipe: str, weights: str) -> None:
    """Set `doc._.elmo` to the layers of a pipe. Keep the layers of other pipes on the Doc, too.

    layers (Floats3d): *Shape:* `(L + 1, n_tokens, 2P)`
    weights (str): Identity of the pipe's weights (`BiLMShim.identity`).
    """
    others = {
        owner: values for owner, values in _held(doc) if owner and owner.rpartition(" ")[0] != pipe
    }
    doc.user_data.pop(OTHERS, None)
    doc.user_data.update({LAYERS: layers, OWNER: f"{pipe} {weights}"})
    if others:
        doc.user_data[OTHERS] = others


def _held(doc: Doc) -> Iterator[tuple[str, Floats3d]]:
    """Yield all layers that are stored on a Doc, each with its owner.

    The owner is a string of the pipe's name and the identity of its weights, or "" if a user set
    the layers.
    """
    if doc.user_data.get(LAYERS) is not None:
        yield doc.user_data.get(OWNER, ""), doc.user_data[LAYERS]
    yield from doc.user_data.get(OTHERS, {}).items()


def last_layers(doc: Doc) -> Optional[Floats3d]:
    """Return `doc._.elmo`, the layers of the last `elmo` pipe, without a warning if it is None."""
    return cast(Optional[Floats3d], doc.user_data.get(LAYERS))


def _get_elmo(doc: Doc) -> Optional[Floats3d]:
    # No warning if the user has set `doc._.elmo = None` to free the layers.
    if LAYERS not in doc.user_data:
        warnings.warn(
            "doc._.elmo is None: no 'elmo' pipe has stored its layers on this Doc. Add it with "
            'config={"store_layers": True}, process the Doc with it, and keep doc.user_data in '
            "copies. By default the pipe stores layers only if a component listens",
            stacklevel=3,
        )
    return last_layers(doc)


def _set_elmo(doc: Doc, layers: Optional[Floats3d]) -> None:
    """Set `doc._.elmo`, and delete the layers of all pipes. Set None to free their memory."""
    for key in (OWNER, OTHERS):
        doc.user_data.pop(key, None)
    doc.user_data[LAYERS] = layers


if not Doc.has_extension("elmo"):
    Doc.set_extension("elmo", getter=_get_elmo, setter=_set_elmo)
