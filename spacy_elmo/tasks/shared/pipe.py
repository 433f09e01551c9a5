"""Base classes of the components for tasks."""

from collections.abc import Callable, Iterable
from typing import Any, Optional

from spacy.language import Language
from spacy.pipeline.trainable_pipe import TrainablePipe
from spacy.tokens import Doc
from spacy.training import Example, validate_examples, validate_get_examples
from spacy.vocab import Vocab
from thinc.api import Model, Optimizer, set_dropout_rate

from ...compat import require_labels
from ...layers.finite import check_loss
from . import clear_gradients, resize_output
from .task_files import READERS
from .torch_module import check_initialized

N_SAMPLES = 10  # Number of Docs that the model infers its sizes from.


Getter = Callable[[], Iterable[Example]]  # Type of `get_examples`.


class TaskPipe(TrainablePipe):
    """Base class of trainable components that skip examples without annotation.

    A subclass defines:

    * `_gold(example)`: returns the gold annotation as token positions in the predicted Doc; None
      without annotation. Raises a ValueError if the annotation is wrong.
    * `_loss(gold, scores)`: returns the loss, in nats, and its gradient with respect to the scores.
    * `_found_in(doc)`: returns the labels in the annotation of a reference, or other values if the
      component has no labels. If labels are not set, initialization needs at least one true value.
    * `_wanted`: describes the annotation that training needs, for error messages.
    """

    factory: str  # Name of the component's factory.
    advice = "Annotate them"  # What to do if the training examples have no annotation.

    def __init__(self, vocab: Vocab, model: Model, name: str, scorer: Optional[Callable]):
        self.vocab = vocab
        self.model = model
        self.name = name
        self.scorer = scorer
        self.cfg: dict[str, Any] = {}

    def update(
        self,
        examples: Iterable[Example],
        *,
        drop: float = 0.0,
        sgd: Optional[Optimizer] = None,
        losses: Optional[dict[str, float]] = None,
    ) -> dict[str, float]:
        """Learn from the gold annotation of a batch. Skip examples without annotation.

        drop (float): Dropout rate of layers that have no rate of their own in the config.
        RAISES (ValueError): The annotation of an example is wrong, or the pipe is not initialized.
        """
        losses = {} if losses is None else losses
        losses.setdefault(self.name, 0.0)
        examples = list(examples)
        validate_examples(examples, f"{type(self).__name__}.update")
        self._check_initialized()
        if not any(len(example.predicted) for example in examples):
            return losses  # spaCy's encoders fail on a batch without tokens.
        gold = [self._gold(example) for example in examples]
        if all(one is None for one in gold):
            return losses
        set_dropout_rate(self.model, drop)
        losses[self.name] += self._learn([example.predicted for example in examples], gold)
        if sgd is not None:
            self.finish_update(sgd)
        return losses

    def _check_initialized(self) -> None:
        """Raise an error if the pipe is not initialized."""
        check_initialized(self.model, self.name)

    def _checked_loss(self, gold: Any, scores: Any) -> tuple[float, Any]:
        """Return the result of `_loss`. Raise an error if the loss is not finite."""
        loss, gradient = self._loss(gold, scores)
        check_loss(loss, self.name)
        return loss, gradient

    def _learn(self, docs: list[Doc], gold: list) -> float:
        """Run the model forwards and backwards on a batch, and return the loss."""
        scores, backprop = self.model.begin_update(docs)
        loss, gradient = self._checked_loss(gold, scores)
        backprop(gradient)
        return loss

    def initialize(self, get_examples: Getter, *, nlp: Optional[Language] = None) -> None:
        """Initialize the model with the sizes that the first examples determine.

        RAISES (ValueError): No example has annotation, or the annotation of an example is wrong.
        """
        docs, _ = self._samples(get_examples)
        self.model.initialize(X=docs)

    def _samples(self, get_examples: Getter, has_labels: bool = False) -> tuple[list[Doc], set]:
        """Return some Docs to infer the sizes of the model from, and the labels of all examples.

        has_labels (bool): Whether labels are known. If so, no example needs annotation.
        RETURNS (Tuple[List[Doc], Set]): The predicted Docs of the first examples; and all values
            that `_found_in` returns for the references.
        RAISES (ValueError): There are no examples, or none has the annotation that is needed.
        """
        samples: list[Example] = []
        found: set = set()
        for example in get_examples():
            if len(samples) < N_SAMPLES:
                samples.append(example)
            found.update(self._found_in(example.reference))
        if not samples:
            raise ValueError(
                f"'{self.name}' got no training examples. Check that the file is not empty, and "
                f"that its reader has the right format (.jsonl files need {READERS[self.factory]})"
            )
        if not any(found) and not has_labels:
            raise ValueError(
                f"'{self.name}' finds no {self._wanted} in the training examples. {self.advice}"
            )
        validate_get_examples(lambda: samples, f"{type(self).__name__}.initialize")
        return [example.predicted for example in samples], found


class SpanPipe(TaskPipe):
    """Base class of components that find labeled spans.

    `cfg["labels"]` contains the labels, which are fixed after initialization. A subclass also
    defines `_tags`, a BIOTags or BILUOTags for the labels.
    """

    advice = "Annotate them there, or set labels in [initialize.components]"
    own_labels: tuple[str, ...] = ()  # Labels that are added even if no example has them.

    def __init__(self, vocab: Vocab, model: Model, name: str, scorer: Optional[Callable]):
        super().__init__(vocab, model, name, scorer)
        self.cfg["labels"] = []

    @property
    def labels(self) -> tuple[str, ...]:
        """Labels of the spans."""
        return tuple(self.cfg["labels"])

    @property
    def label_data(self) -> list[str]:
        """Labels that `spacy init labels` saves for `initialize`."""
        return list(self.labels)

    def add_label(self, label: str) -> int:
        """Add a label, before the model is initialized.

        RETURNS (int): 1 if the label is new, otherwise 0.
        RAISES (ValueError): The model is initialized.
        """
        if label in self.labels:
            return 0
        if self.model.has_dim("nO"):
            raise ValueError(
                f"cannot add the label {label!r} to '{self.name}', because it is initialized"
            )
        self._append_label(label)
        return 1

    def _append_label(self, label: str) -> None:
        self.cfg["labels"].append(label)
        self.vocab.strings.add(label)

    def initialize(
        self,
        get_examples: Callable[[], Iterable[Example]],
        *,
        nlp: Optional[Language] = None,
        labels: Optional[list[str]] = None,
    ) -> None:
        """Add the labels, and initialize the model with sizes that the first examples determine.

        If the pipe is initialized already, it forgets what it has learned. It keeps its labels, and
        gets the new ones in addition, like spaCy's components.

        labels (Optional[List[str]]): From `spacy init labels`. Default: all labels of the examples.
        RAISES (ValueError): There are no examples, or no labels.
        """
        docs, found = self._samples(get_examples, bool(labels or self.labels))
        for label in [*(labels or sorted(found)), *self.own_labels]:
            if label not in self.labels:
                self._append_label(label)
        resize_output(self.model, len(self._tags))
        self.model.initialize(X=docs)
        clear_gradients(self.model)
        self._forget()

    def _forget(self) -> None:
        """Reset values in `cfg` that describe an earlier training. The base class has none."""

    def _check_initialized(self) -> None:
        require_labels(self)
        super()._check_initialized()
