"""Training of an `elmo` pipe: layers for its listeners, and one backward pass for all of them.

The pipe computes the layers of a batch once. Each listener mixes them, and reports the gradient of
the layers in its own backward pass. The pipe adds up these gradients (`TrainingBatch`) and runs the
language model's backward pass once.

spaCy's own tok2vec lets the last listener run the backward pass. This loses gradients: with two
listeners in one component, the gradient differs by 42 % from finite differences. If the last
listening component is frozen, the upstream pipe does not train at all.

`Language.update` calls `finish_update` of this pipe before the listeners have run. So the backward
pass runs when all listeners have reported. If one does not report, because its component is
excluded or finds no annotation, the update stays pending until the next update, or until the
weights are needed (`BiLMShim.finish_pending`).

Invariant: a batch has at most one backward pass. A gradient that arrives later is an error.
"""

from collections.abc import Callable, Iterable, Sequence
from typing import Any, Optional

import numpy as np
from spacy.tokens import Doc
from spacy.training import Example, validate_examples
from thinc.api import Optimizer, to_numpy
from thinc.types import Floats3d

from ..embedding.vectors import get_layers, store_layers
from ..layers.listener import ElmoListener, Layers, Report, no_upstream
from .listening import Listening, updated_pipeline


class Training(Listening):
    """Base class with the methods of the `elmo` pipe that `nlp.update` calls."""

    def __init__(self) -> None:
        super().__init__()
        self._losses: dict[str, float] = {}
        self._batch: Optional[TrainingBatch] = None

    def update(
        self,
        examples: Iterable[Example],
        *,
        drop: float = 0.0,
        sgd: Optional[Optimizer] = None,
        losses: Optional[dict[str, float]] = None,
    ) -> dict[str, float]:
        """Compute the layers of a batch for the listeners.

        If the language model is fine-tuned, its backward pass runs later, once for all listeners.
        See the top of this module.

        examples (Iterable[Example]): The batch.
        drop (float): Not used.
        sgd (Optional[Optimizer]): The optimizer.
        losses (Optional[Dict[str, float]]): Losses by pipe name, to update. The loss of this pipe
            is the sum of the squares of the gradients that the listeners report.
        RETURNS (Dict[str, float]): The updated losses.
        """
        losses = {} if losses is None else losses
        losses.setdefault(self.name, 0.0)
        examples = list(examples)
        validate_examples(examples, "Elmo.update")
        self._finish_batch()
        if not self.has_listeners():
            return losses
        docs = [example.predicted for example in examples]
        layers, backprop = self.model(docs, is_train=True)
        self._store(docs, layers)
        if not self.settings.frozen:
            self._batch = TrainingBatch(docs, layers, backprop)
            self._shim.pending = self._finish_reported
            self._losses = losses
            if sgd not in (None, False):
                self.finish_update(sgd)
        return losses

    def finish_update(self, sgd: Optimizer) -> None:
        """Run the backward pass of the last batch, and update the weights with the gradients.

        `Language.update` may call this before the listeners have reported gradients. Then the
        backward pass and the update run later, when all listeners have reported.

        sgd (Optimizer): The optimizer.
        """
        if self.settings.frozen:
            return
        if self._batch is not None:
            self._batch.optimizer = sgd
        self._finish_reported()
        self.model.finish_update(sgd)  # Earlier batches may have left gradients.

    def score(self, examples: Iterable[Example], **kwargs: Any) -> dict[str, Any]:
        """Add the layers of the scored Docs to the cache of features. There is nothing to score.

        examples (Iterable[Example]): The examples.
        RETURNS (Dict[str, Any]): An empty dict.
        """
        docs = [example.predicted for example in examples]
        self._shim.keep(docs, self._known_layers(docs))
        return {}

    def annotate(self, docs: Sequence[Doc]) -> Layers:
        """Return the layers of Docs. Compute and store layers that are missing or outdated.

        docs (Sequence[Doc]): The Docs.
        RETURNS (List[Floats3d]): `(L + 1, n_tokens, 2P)` each.
        """
        known = self._known_layers(docs)
        missing = [doc for doc, layers in zip(docs, known) if layers is None]
        computed = self.model.predict(missing) if missing else []
        if missing:
            self._store(missing, computed)
        new = iter(computed)
        return [next(new) if layers is None else layers for layers in known]

    def training_layers(
        self, docs: Sequence[Doc], listener: ElmoListener
    ) -> tuple[Layers, Optional[Report]]:
        """Return the layers that a listener reads in an update.

        If the pipe is fine-tuned and these Docs are from its last `update`, the layers have a
        gradient, which the listener must report. Otherwise the layers are read from the Docs and
        have no gradient. Missing layers are first computed and stored on the Docs, for all
        listeners.

        docs (Sequence[Doc]): The Docs that the listener reads.
        listener (ElmoListener): The listener.
        RETURNS (Tuple[List[Floats3d], Optional[Callable]]): The layers, and the function that the
            listener must call with their gradient (None if there is no gradient).
        RAISES (ValueError): The listener is trained in a pipeline without this pipe.
        """
        nlp = updated_pipeline()  # A component from another pipeline refers to the pipe there.
        if nlp is not None and all(pipe is not self for _, pipe in nlp._components):
            raise no_upstream(listener)
        batch = self._batch
        if batch is None or not batch.holds(docs):
            self._shim.in_training = True
            layers = self.annotate(docs)
            self._shim.keep(docs, layers)
            return layers, None

        def report(gradients: Layers) -> None:
            self._losses[self.name] += batch.add(docs, gradients)
            if batch.optimizer is not None and batch.is_complete(self.listeners):
                self._finish_batch()

        return batch.layers_of(docs, listener), report

    def _finish_batch(self) -> None:
        """Run the backward pass and the optimizer if the batch has gradients. Forget the batch."""
        batch, self._batch, self._shim.pending = self._batch, None, None
        if batch is not None and batch.has_gradient:
            batch.run_backward()
            if batch.optimizer is not None:
                self.model.finish_update(batch.optimizer)

    def _finish_reported(self) -> None:
        """Finish the batch if a listener has reported a gradient. Otherwise keep it."""
        if self._batch is not None and self._batch.has_gradient:
            self._finish_batch()

    def _known_layers(self, docs: Sequence[Doc]) -> list[Optional[Floats3d]]:
        """Return the layers stored on each Doc; None for a Doc without layers of these weights."""
        identity = self._shim.identity if docs else ""
        return [get_layers(doc, self.name, identity) for doc in docs]

    def _store(self, docs: Sequence[Doc], layers: Layers) -> None:
        identity = self._shim.identity
        for doc, values in zip(docs, layers):
            store_layers(doc, values, self.name, identity)


class TrainingBatch:
    """Layers of a batch of Docs, and the sum of the gradients that listeners have reported.

    A listener can read a batch several times, and can read only a part of its Docs. So the batch
    counts reads and reports: it is complete when every listener has read all Docs and each read has
    a report. A Doc belongs to the batch only if it is the same object, not a copy.

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
        # Ids of the Docs that each listener has read, by the id of the listener.
        self._read: dict[int, set[int]] = {}
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
        """Check whether all listeners have read all Docs, with a gradient for each read."""
        n_read = [len(self._read.get(id(listener), ())) for listener in listeners]
        return self.has_gradient and self._n_open == 0 and set(n_read) <= {len(self._index)}

    def layers_of(self, docs: Sequence[Doc], listener: object) -> Layers:
        """Return the layers of some Docs of the batch, and count one more read by the listener."""
        self._read.setdefault(id(listener), set()).update(map(id, docs))
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
