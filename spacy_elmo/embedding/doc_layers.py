"""The layers that a Doc holds for listeners: `doc._.elmo` are those of the pipe that stored
last, and beside them are those of the pipes before it."""

from collections.abc import Iterator
from typing import Optional, cast

from spacy.tokens import Doc
from thinc.types import Floats3d

# Keys of user_data. The first is where spaCy keeps the value of an extension `elmo`.
LAYERS = ("._.", "elmo", None, None)
OWNER = "elmo_owner"  # whose layers these are: name of the pipe, and identity of its weights
OTHERS = "elmo_others"  # the layers of other pipes, by owner


def get_layers(doc: Doc, pipe: str, weights: Optional[str] = None) -> Optional[Floats3d]:
    """Find the layers of one pipe.

    doc (Doc): The Doc.
    pipe (str): Name of the pipe.
    weights (Optional[str]): Identity of its weights; None for any. Layers that somebody
        else put into `doc._.elmo` are of any pipe, but of no known weights.
    RETURNS (Optional[Floats3d]): *Shape:* `(L + 1, n_tokens, 2P)`; None where there are none.
    """
    for owner, layers in _held(doc):
        name, _, identity = owner.rpartition(" ")
        if (name == pipe and weights in (None, identity)) or (not owner and weights is None):
            return layers
    return None


def store_layers(doc: Doc, layers: Floats3d, pipe: str, weights: str) -> None:
    """Set `doc._.elmo`; what other pipes stored is kept for their listeners.

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
    """Owners and layers; the owner of what somebody else put there is ""."""
    if doc.user_data.get(LAYERS) is not None:
        yield doc.user_data.get(OWNER, ""), doc.user_data[LAYERS]
    yield from doc.user_data.get(OTHERS, {}).items()


def _get(doc: Doc) -> Optional[Floats3d]:
    return cast(Optional[Floats3d], doc.user_data.get(LAYERS))


def _set(doc: Doc, layers: Optional[Floats3d]) -> None:
    """`doc._.elmo = None` frees the layers of all pipes."""
    for key in (OWNER, OTHERS):
        doc.user_data.pop(key, None)
    doc.user_data[LAYERS] = layers


if not Doc.has_extension("elmo"):
    Doc.set_extension("elmo", getter=_get, setter=_set)
