"""Base classes of the tasks' components."""

from collections.abc import Callable, Iterable
from typing import Any, Optional

from spacy.language import Language
from spacy.pipeline.trainable_pipe import TrainablePipe
from spacy.tokens import Doc
from spacy.training import Example, validate_examples, validate_get_examples
from spacy.vocab import Vocab
from thinc.api import Model, Optimizer, set_dropout_rate

from .torch_module import check_initialized

N_SAMPLES = 10  # Docs from which the model infers its sizes.


class TaskPipe(TrainablePipe):
    """Component that learns from the annotated examples of a batch.

    A component defines:

    * `_gold(example)`: the gold annotation in tokens of the predicted Doc, None if there is none;
      it raises a ValueError if the annotation is wrong;
    * `_loss(gold, scores)`: the loss, in nats, and its gradient with respect to the scores;
    * `_found_in(doc)`: the labels, or other properties, of a reference's annotation;
    * `_wanted`: the annotation that the training examples need, for errors.
    """

    reader: str  # Name of the reader of the component's own files.
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
        """Learn from the gold annotation of a batch; examples without annotation are skipped.

        examples (Iterable[Example]): The batch.
        drop (float): The dropout rate of layers without a rate of their own.
        sgd (Optional[Optimizer]): The optimizer.
        losses (Optional[Dict[str, float]]): The losses by pipe.
        RETURNS (Dict[str, float]): The losses, with the loss of `get_loss` added.
        RAISES (ValueError): The annotation of an example is wrong, or the pipe is not initialized.
        """
        losses = {} if losses is None else losses
        losses.setdefault(self.name, 0.0)
        examples = list(examples)
        validate_examples(examples, f"{type(self).__name__}.update")
        self._check_initialized()
        if not any(len(example.predicted) for example in examples):
            return losses  # spaCy's own encoders fail on a batch without tokens.
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

    def get_loss(self, examples: Iterable[Example], scores: Any) -> tuple[float, Any]:
        """Compute the loss and its gradient; both are zero without annotation.

        examples (Iterable[Example]): The examples.
        scores (Any): The model's output for them.
        RETURNS (Tuple[float, Any]): The loss, in nats, and its gradient with respect to the scores.
        RAISES (ValueError): The annotation is wrong, or the loss is not finite.
        """
        return self._loss([self._gold(example) for example in examples], scores)

    def _learn(self, docs: list[Doc], gold: list) -> float:
        """Add to the gradients of the model, and return the loss."""
        scores, backprop = self.model.begin_update(docs)
        loss: float
        loss, gradient = self._loss(gold, scores)
        backprop(gradient)
        return loss

    def initialize(
        self, get_examples: Callable[[], Iterable[Example]], *, nlp: Optional[Language] = None
    ) -> None:
        """Prepare the model for training.

        get_examples (Callable[[], Iterable[Example]]): The examples.
        nlp (Optional[Language]): The pipeline.
        RAISES (ValueError): There is no annotation, or it is wrong.
        """
        docs, _ = self._samples(get_examples)
        self.model.initialize(X=docs)

    def _samples(
        self, get_examples: Callable[[], Iterable[Example]], has_labels: bool = False
    ) -> tuple[list[Doc], set]:
        """Return the first Docs, for the model's sizes, and what `_found_in` finds in all Docs."""
        samples: list[Example] = []
        found: set = set()
        for example in get_examples():
            if len(samples) < N_SAMPLES:
                samples.append(example)
            found.update(self._found_in(example.reference))
        if not samples:
            raise ValueError(
                f"'{self.name}' gets no examples to train on: the file is empty, or has another "
                f"format than its reader (.jsonl needs {self.reader})"
            )
        if not any(found) and not has_labels:
            raise ValueError(
                f"'{self.name}' finds no {self._wanted} in the training examples. {self.advice}"
            )
        validate_get_examples(lambda: samples, f"{type(self).__name__}.initialize")
        return [example.predicted for example in samples], found


class SpanPipe(TaskPipe):
    """Component that finds labeled spans.

    `cfg["labels"]` contains the labels. None can be added once the model is initialized. A
    component also defines `_tags`, the tags of the labels.
    """

    advice = "Annotate them there, or give labels"
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
        """Labels for `initialize`, which replace the examples' labels."""
        return list(self.labels)

    def add_label(self, label: str) -> int:
        """Add a label, before the model is initialized.

        label (str): The label.
        RETURNS (int): 1, or 0 if it is there already.
        RAISES (ValueError): The model is initialized.
        """
        if label in self.labels:
            return 0
        if self.model.has_dim("nO"):
            raise ValueError(
                f"'{self.name}' is initialized already: label {label!r} cannot be added"
            )
        self.cfg["labels"].append(label)
        self.vocab.strings.add(label)
        return 1

    def initialize(
        self,
        get_examples: Callable[[], Iterable[Example]],
        *,
        nlp: Optional[Language] = None,
        labels: Optional[list[str]] = None,
    ) -> None:
        """Prepare the model for training.

        get_examples (Callable[[], Iterable[Example]]): The examples, whose labels are added.
        nlp (Optional[Language]): The pipeline.
        labels (Optional[List[str]]): The labels, as `spacy init labels` writes them. Default: the
            labels of the examples.
        RAISES (ValueError): There are no labels.
        """
        docs, found = self._samples(get_examples, bool(labels or self.labels))
        for label in [*(labels or sorted(found)), *self.own_labels]:
            self.add_label(label)
        self.model.set_dim("nO", len(self._tags))
        self.model.initialize(X=docs)
        self._forget()

    def _forget(self) -> None:
        """Reset values in `cfg` that describe an earlier training. The default does nothing."""

    def _check_initialized(self) -> None:
        self._require_labels()
        super()._check_initialized()
