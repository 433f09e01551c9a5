"""Training of an `elmo` pipe: layers for its listeners, and one backward pass for all of them.

The pipe computes the layers of a batch once. Each listener mixes them, and reports the gradient of
the layers in its own backward pass. The pipe adds up these gradients (`TrainingBatch`) and runs the
language model's backward pass once.

spaCy's own tok2vec lets the last listener run the backward pass. This loses gradients: with two
listeners in one component, the gradient differs by 42 % from finite differences. If the last
listening component is frozen, the upstream pipe does not train at all.

spaCy does not tell a pipe when an update ends, and there are two orders of its calls. `nlp.update`
with an optimizer updates and finishes one component after the other. `spacy train` calls
`nlp.update` without an optimizer, once or several times (`accumulate_gradient`), and then
`finish_update` of all components:

    nlp.update     Elmo.update, Elmo.finish_update, listener 1 .. listener n (rule 2 applies here)
    spacy train    Elmo.update, listener 1 .. listener n, Elmo.finish_update (rule 1 applies here)

So the rule for the backward pass and the optimizer step is the same for all callers:

1. `finish_update` runs them at once if a listener has reported a gradient. Otherwise it only
   remembers the optimizer, because a step now would change weights that the backward pass needs.
2. Then they run when all connected listeners have reported.
3. If a listener does not report, because its component is excluded or finds no annotation, the
   update stays pending. The next update runs them, and so do all things that need the weights
   (`BiLMShim.finish_pending`), and a listener that has reported and then reads Docs of another
   batch.
4. A prediction runs them only if a listener has reported, and in the thread of the update: a
   component can annotate in the middle of an update, and another thread can predict then. They also
   wait if a component predicts between its own forward and backward pass. If no listener has read
   the batch, a prediction of other Docs runs the step for gradients of earlier batches.
5. A listener that reads Docs of the last batch after its backward pass, because a component between
   has needed the weights or the listener reads twice, starts a new batch with these Docs and the
   same optimizer. The language model computes their layers again.

Invariant: a batch has at most one backward pass. A gradient that arrives later is an error.
"""

import threading
import warnings
import weakref
from collections.abc import Callable, Iterable, Sequence
from typing import Any, Optional

import numpy as np
from spacy.tokens import Doc
from spacy.training import Example, validate_examples
from thinc.api import Optimizer, to_numpy
from thinc.types import Floats3d

from ..embedding.doc_layers import get_layers, store_layers
from ..layers.listener import ElmoListener, Report
from ..layers.scalar_mix import Layers
from .listening import Listening


class Training(Listening):
    """Base class with the methods of the `elmo` pipe that `nlp.update` calls."""

    def __init__(self) -> None:
        super().__init__()
        self._losses: dict[str, float] = {}
        self._batch: Optional[TrainingBatch] = None
        self._finished = _Finished()

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
        self._finished = _Finished()
        self.connect_lost_listeners()
        if not self.has_listeners():
            return losses
        docs = [example.predicted for example in examples]
        self._start_batch(docs)
        if not self.settings.frozen:
            self._losses = losses
            if sgd not in (None, False):
                self.finish_update(sgd)
        return losses

    def finish_update(self, sgd: Optimizer) -> None:
        """Run the backward pass of the last batch, and update the weights with the gradients.

        If no listener has reported a gradient of this batch, both wait. See the top of this module.

        sgd (Optimizer): The optimizer.
        """
        if self.settings.frozen:
            return
        if self._batch is None:
            self.model.finish_update(sgd)  # Earlier batches may have left gradients.
            return
        self._batch.optimizer = sgd
        if self._batch.has_reports:
            self._finish_batch()

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
        gradient, which the listener must report. If the backward pass of that update has run, the
        layers are first computed again. Otherwise the layers are read from the Docs and
        have no gradient. Missing layers are first computed and stored on the Docs, for all
        listeners.

        docs (Sequence[Doc]): The Docs that the listener reads.
        listener (ElmoListener): The listener.
        RETURNS (Tuple[List[Floats3d], Optional[Callable]]): The layers, and the function that the
            listener must call with their gradient (None if there is no gradient).
        """
        if self._batch is not None and self._batch.is_over_for(listener, docs):
            self._finish_batch()
        if self._batch is None and not self.settings.frozen and self._finished.holds(docs):
            self._start_batch(self._finished.docs, self._finished.optimizer)
        batch = self._batch
        if batch is None or not batch.holds(docs):
            self._warn_of_other_docs(docs, listener)
            self._shim.in_training = True
            layers = self.annotate(docs)
            self._shim.keep(docs, layers)
            return layers, None

        def report(gradients: Layers) -> None:
            self._losses[self.name] += batch.add(docs, gradients, listener)
            if batch.optimizer is not None and batch.is_complete(self.connected_listeners()):
                self._finish_batch()

        return batch.layers_of(docs, listener), report

    def _warn_of_other_docs(self, docs: Sequence[Doc], listener: ElmoListener) -> None:
        """Warn once if a listener trains without this pipe, and the user may not have meant it.

        docs (Sequence[Doc]): Docs that are not those of the batch, if there is a batch.
        listener (ElmoListener): The listener that reads them.
        """
        if self._batch is not None and not self.settings.frozen:
            message = (
                f"'{listener.component}' trains on other Docs than '{self.name}', which does not "
                f"learn from them. If a component before it returns copies of Docs, change it to "
                f"return the Docs that it gets."
            )
        elif self._is_removed() and any(one is None for one in self._known_layers(docs)):
            message = (
                f"'{self.name}' was removed from its pipeline, but '{listener.component}' still "
                f"trains on its vectors, and will predict from zeros. Add it to the pipeline again."
            )
        else:
            return
        if not listener.has_warned_in_training:
            listener.has_warned_in_training = True
            warnings.warn(message, stacklevel=3)

    def _start_batch(self, docs: Sequence[Doc], optimizer: Optional[Optimizer] = None) -> None:
        """Compute and store the layers of Docs. If the pipe is fine-tuned, they are the batch now.

        docs (Sequence[Doc]): The Docs.
        optimizer (Optional[Optimizer]): The optimizer, if it is known.
        """
        layers, backprop = self.model(docs, is_train=True)
        self._store(docs, layers)
        if not self.settings.frozen:
            self._batch = TrainingBatch(docs, layers, backprop)
            self._batch.optimizer = optimizer
            self._shim.before_weights_are_used = self._finish_before_weights_are_used

    def _finish_batch(self) -> None:
        """Run the backward pass and the optimizer step of the batch, and forget the batch.

        If the batch has no gradient, the step still applies the gradients of earlier batches.
        """
        # Forget the batch first: the optimizer step below finishes a pending update, too.
        batch, self._batch, self._shim.before_weights_are_used = self._batch, None, None
        if batch is None:
            return
        self._finished = _Finished(batch.docs, batch.optimizer)
        batch.run_backward()
        if batch.optimizer is not None:
            self.model.finish_update(batch.optimizer)

    def _finish_before_prediction(self, docs: Sequence[Doc]) -> None:
        """Finish the batch before a prediction, unless it may be in the middle of an update.

        docs (Sequence[Doc]): The Docs to predict.
        """
        batch = self._batch
        if batch is None or batch.is_in_another_thread():
            return
        is_reported = batch.has_reports and not batch.has_open_reads
        is_unread = not batch.is_read and not batch.holds(docs)
        if is_reported or (is_unread and self._has_due_step(batch)):
            self._finish_batch()

    def _finish_before_weights_are_used(self) -> None:
        """Finish the batch, if there is a gradient for it, before the weights are read or changed.

        The gradient can be of an earlier batch that waits for the optimizer step of this batch.
        """
        batch = self._batch
        if batch is None:
            return
        if batch.has_reports or self._has_due_step(batch):
            self._finish_batch()

    def _has_due_step(self, batch: "TrainingBatch") -> bool:
        """Check whether gradients of earlier batches wait for the optimizer step of this batch."""
        return batch.optimizer is not None and self._shim.has_gradient

    def _known_layers(self, docs: Sequence[Doc]) -> list[Optional[Floats3d]]:
        """Return the layers stored on each Doc; None for a Doc without layers of these weights."""
        identity = self._shim.identity if docs else ""
        return [get_layers(doc, self.name, identity) for doc in docs]

    def _store(self, docs: Sequence[Doc], layers: Layers) -> None:
        identity = self._shim.identity
        for doc, values in zip(docs, layers):
            store_layers(doc, values, self.name, identity)


class _Finished:
    """Docs of the last finished batch, as weak references, and its optimizer.

    They are not copied with the pipe.

    docs (Sequence[Doc]): The Docs.
    optimizer (Optional[Optimizer]): The optimizer; None if the batch had none yet.
    """

    def __init__(self, docs: Sequence[Doc] = (), optimizer: Optional[Optimizer] = None):
        self.optimizer = optimizer
        self._docs = [weakref.ref(doc) for doc in docs]

    @property
    def docs(self) -> list[Doc]:
        """The Docs that still exist, in their order."""
        return [doc for one in self._docs if (doc := one()) is not None]

    def holds(self, docs: Sequence[Doc]) -> bool:
        """Check whether there are `docs`, and all belong to the batch."""
        held = set(map(id, self.docs))
        return bool(docs) and all(id(doc) in held for doc in docs)

    def __reduce__(self) -> tuple[type["_Finished"], tuple[()]]:
        return type(self), ()


class TrainingBatch:
    """Layers of a batch of Docs, and the sum of the gradients that listeners have reported.

    A listener can read a batch several times, and can read only a part of its Docs. So the batch
    counts reads and reports: it is complete when every listener has read all Docs and each read has
    a report. A Doc belongs to the batch only if it is the same object, not a copy.

    The batch belongs to the thread that makes it.

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
        self._thread = threading.current_thread()
        # Ids of the Docs that each listener has read, by the id of the listener.
        self._read: dict[int, set[int]] = {}
        # Number of reads without a report, by the id of the listener.
        self._n_open: dict[int, int] = {}
        self._is_done = False

    def holds(self, docs: Sequence[Doc]) -> bool:
        """Check whether all `docs` belong to this batch."""
        return all(id(doc) in self._index for doc in docs)

    @property
    def has_reports(self) -> bool:
        """True if a listener has reported a gradient."""
        return self._gradients is not None

    @property
    def has_open_reads(self) -> bool:
        """True if a listener has read layers, and has not reported their gradient."""
        return any(self._n_open.values())

    @property
    def is_read(self) -> bool:
        """True if a listener has read layers of this batch."""
        return bool(self._read)

    def is_in_another_thread(self) -> bool:
        """Check whether another thread runs the update of this batch, or has run it."""
        return self._thread is not threading.current_thread() and self._thread.is_alive()

    def is_over_for(self, listener: object, docs: Sequence[Doc]) -> bool:
        """Check whether a listener has reported, and now reads Docs of another batch.

        Then the update of this batch is over, although other listeners have not reported. A
        component that computes Docs of its own, such as the entity linker, reads only these.
        """
        return self._n_open.get(id(listener)) == 0 and not self.holds(docs)

    def is_complete(self, listeners: Sequence[object]) -> bool:
        """Check whether all listeners have read all Docs, with a gradient for each read."""
        n_read = [len(self._read.get(id(listener), ())) for listener in listeners]
        is_read = set(n_read) <= {len(self._index)}
        return self.has_reports and is_read and not self.has_open_reads

    def layers_of(self, docs: Sequence[Doc], listener: object) -> Layers:
        """Return the layers of some Docs of the batch, and count one more read by the listener."""
        self._read.setdefault(id(listener), set()).update(map(id, docs))
        self._n_open[id(listener)] = self._n_open.get(id(listener), 0) + 1
        return [self.layers[self._index[id(doc)]] for doc in docs]

    def add(self, docs: Sequence[Doc], gradients: Layers, listener: object) -> float:
        """Add a listener's gradients to the sum for this batch. Return the sum of their squares.

        docs (Sequence[Doc]): The Docs that the listener read.
        gradients (List[Floats3d]): The gradients of the Docs' layers.
        listener (ElmoListener): The listener.
        RETURNS (float): The sum of the squares of these gradients, a part of the pipe's loss.
        RAISES (RuntimeError): The update of the batch is finished.
        """
        if self._is_done:
            raise RuntimeError(
                "a listener reported a gradient after the language model's backward pass. Change "
                "the component: it must run its backward pass before it reads Docs of another "
                "batch, and before the weights are read or saved."
            )
        if self._gradients is None:
            self._gradients = [np.zeros_like(values) for values in self.layers]
        self._n_open[id(listener)] -= 1
        total = 0.0
        for doc, gradient in zip(docs, map(to_numpy, gradients)):
            self._gradients[self._index[id(doc)]] += gradient
            total += float((gradient**2).sum())
        return total

    def run_backward(self) -> None:
        """Run the language model's backward pass with the sum of all listeners' gradients."""
        if self._gradients is not None:
            self.backprop(self._gradients)
        self._gradients = None
        self._is_done = True

    def __reduce__(self) -> tuple[type[None], tuple[()]]:
        return type(None), ()  # A pending update is not pickled with the pipe.
