"""Training of a pipeline: layers for the listeners, and one backward pass for all of them."""

from collections.abc import Iterable, Sequence
from typing import Any, Optional

from spacy.tokens import Doc
from spacy.training import Example, validate_examples
from thinc.api import Optimizer
from thinc.types import Floats3d

from ..embedding.doc_layers import get_layers, store_layers
from ..layers.listener import ElmoListener, Layers, Report
from .listening import Listening
from .training_batch import TrainingBatch


class Training(Listening):
    """The part of the `elmo` pipe that `nlp.update` uses."""

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

        If the language model is fine-tuned, the backward pass runs once for all listeners: after
        the last one has reported, in `finish_update`, or before the next update.

        examples (Iterable[Example]): The batch.
        drop (float): Not used.
        sgd (Optional[Optimizer]): The optimizer.
        losses (Optional[Dict[str, float]]): The losses by pipe. The loss of `elmo` is the
            sum of squares of the reported gradients.
        RETURNS (Dict[str, float]): The losses.
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
            self._losses = losses
            if sgd not in (None, False):
                self.finish_update(sgd)
        return losses

    def finish_update(self, sgd: Optimizer) -> None:
        """Run the backward pass if a listener has reported, and update the weights.

        `Language.update` calls this before the listeners have run. The backward pass then waits
        for them.

        sgd (Optimizer): The optimizer.
        """
        if self.settings.frozen:
            return
        if self._batch is not None:
            self._batch.optimizer = sgd
        self._finish_reported()
        self.model.finish_update(sgd)  # for gradients of earlier batches

    def score(self, examples: Iterable[Example], **kwargs: Any) -> dict[str, Any]:
        """Return no scores, and keep the layers of the scored Docs.

        examples (Iterable[Example]): The examples.
        RETURNS (Dict[str, Any]): An empty dict.
        """
        docs = [example.predicted for example in examples]
        self._shim.keep(docs, self._known_layers(docs))
        return {}

    def annotate(self, docs: Sequence[Doc]) -> Layers:
        """Return the layers of Docs. Layers that are missing or outdated are computed and stored.

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

        Docs of the current batch of a fine-tuned pipe take part in the gradient. Other Docs keep
        the layers that they have; missing ones are computed once for all listeners.

        docs (Sequence[Doc]): The Docs that the listener reads.
        listener (ElmoListener): The listener.
        RETURNS (Tuple[List[Floats3d], Optional[Callable]]): The layers, and a function to
            report their gradient to, if they need one.
        """
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
        """Run the pending backward pass, before layers are computed again."""
        batch, self._batch = self._batch, None
        if batch is not None and batch.has_gradient:
            batch.run_backward()
            if batch.optimizer is not None:
                self.model.finish_update(batch.optimizer)

    def _finish_reported(self) -> None:
        """Run the pending backward pass, but keep a batch that the listeners have yet to read."""
        if self._batch is not None and self._batch.has_gradient:
            self._finish_batch()

    def _known_layers(self, docs: Sequence[Doc]) -> list[Optional[Floats3d]]:
        """Return the layers that this pipe stored with its present weights."""
        identity = self._shim.identity if docs else ""
        return [get_layers(doc, self.name, identity) for doc in docs]

    def _store(self, docs: Sequence[Doc], layers: Layers) -> None:
        identity = self._shim.identity
        for doc, values in zip(docs, layers):
            store_layers(doc, values, self.name, identity)
