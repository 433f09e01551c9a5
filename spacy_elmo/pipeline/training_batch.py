"""Batch of a fine-tuned pipe, which adds up the gradients of its listeners.

`training.py` explains why. A listener can read a batch several times, and can read only a part of
its Docs. So the batch counts reads and reports: it is complete when every listener has read it and
each read has a report.
"""

from collections.abc import Callable, Sequence
from typing import Optional

import numpy as np
from spacy.tokens import Doc
from thinc.api import Optimizer, to_numpy

from ..layers.listener import Layers


class TrainingBatch:
    """Layers of a batch of Docs, and the sum of the gradients that listeners have reported.

    A Doc belongs to the batch only if it is the same object, not a copy.

    docs (Sequence[Doc]): The Docs.
    layers (List[Floats3d]): The layers of each Doc.
    backprop (Callable): The backward pass of the language model.
    """

    def __init__(self, docs: Sequence[Doc], layers: Layers, backprop: Callable):
        self.docs = list(docs)  # Keep the Docs alive, so that no other Doc gets the same id.
        self.layers = layers
        self.backprop = backprop
        # The optimizer, if `finish_update` was called before all listeners reported gradients.
        self.optimizer: Optional[Optimizer] = None
        self._index = {id(doc): i for i, doc in enumerate(self.docs)}
        self._gradients: Optional[Layers] = None
        self._listeners: set[int] = set()
        self._n_open = 0
        self._is_done = False

    def holds(self, docs: Sequence[Doc]) -> bool:
        """Check whether all `docs` belong to this batch."""
        return all(id(doc) in self._index for doc in docs)

    @property
    def has_gradient(self) -> bool:
        """True if a listener has reported a gradient."""
        return self._gradients is not None

    def is_complete(self, listeners: Sequence[object]) -> bool:
        """Check whether all listeners have read the batch, with a gradient for each read."""
        heard = {id(listener) for listener in listeners}
        return self.has_gradient and self._n_open == 0 and heard <= self._listeners

    def layers_of(self, docs: Sequence[Doc], listener: object) -> Layers:
        """Return the layers of some Docs of the batch, and count one more read by the listener."""
        self._listeners.add(id(listener))
        self._n_open += 1
        return [self.layers[self._index[id(doc)]] for doc in docs]

    def add(self, docs: Sequence[Doc], gradients: Layers) -> float:
        """Add a listener's gradients to the sum for this batch. Return the sum of their squares.

        docs (Sequence[Doc]): The Docs that the listener read.
        gradients (List[Floats3d]): The gradients of the Docs' layers.
        RETURNS (float): The sum of the squares of these gradients, a part of the pipe's loss.
        RAISES (RuntimeError): The backward pass has run already.
        """
        if self._is_done:
            raise RuntimeError(
                "a listener reported a gradient after the language model's backward pass. Change "
                "its component: it must not read the layers again after its own backward pass"
            )
        if self._gradients is None:
            self._gradients = [np.zeros_like(values) for values in self.layers]
        self._n_open -= 1
        total = 0.0
        for doc, gradient in zip(docs, map(to_numpy, gradients)):
            self._gradients[self._index[id(doc)]] += gradient
            total += float((gradient**2).sum())
        return total

    def run_backward(self) -> None:
        """Run the language model's backward pass with the sum of all listeners' gradients."""
        self.backprop(self._gradients)
        self._gradients = None
        self._is_done = True

    def __reduce__(self) -> tuple[type[None], tuple[()]]:
        return type(None), ()  # A pending update is not pickled with the pipe.
