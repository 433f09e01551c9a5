"""A component that finds labeled spans."""

from collections.abc import Callable, Iterable
from typing import Any, Generic, Optional, TypeVar

from spacy.errors import Errors
from spacy.language import Language
from spacy.tokens import Doc
from spacy.training import Example

from .bio import BIOTags
from .pipe import TaskPipe

Tags = TypeVar("Tags", bound=BIOTags)


class SpanPipe(TaskPipe, Generic[Tags]):
    """Keeps labels in `cfg["labels"]`, to which none can be added once the model has a size."""

    cfg: dict[str, Any]
    own_labels: tuple[str, ...] = ()  # which it has whatever the examples have
    _known_tags: Optional[Tags] = None

    @property
    def labels(self) -> tuple[str, ...]:
        """RETURNS (Tuple[str]): The labels of the spans."""
        return tuple(self.cfg["labels"])

    @property
    def label_data(self) -> list[str]:
        """RETURNS (List[str]): What `initialize` takes in place of the examples' labels."""
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
            raise ValueError(f"'{self.name}' is initialized: it can take no label {label!r} more")
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
        labels (Optional[List[str]]): The labels, as `spacy init labels` writes them, in place
            of the examples'.
        RAISES (ValueError): There are no labels.
        """
        docs, found = self._samples(get_examples, self._labels_in)
        if not (labels or found or self.labels):
            raise ValueError(
                f"'{self.name}' finds no spans in {self._place} of the training examples, and no "
                f"labels are given"
            )
        for label in [*(labels or sorted(found)), *self.own_labels]:
            self.add_label(label)
        self.model.set_dim("nO", len(self._tags))
        self.model.initialize(X=docs)
        self._forget()

    def _check_initialized(self) -> None:
        self._require_labels()
        super()._check_initialized()
        if not self.model.has_dim("nO"):
            raise ValueError(Errors.E109.format(name=self.name))

    @property
    def _tags(self) -> Tags:
        if self._known_tags is None or self._known_tags.labels != self.labels:
            self._known_tags = self._make_tags()
        return self._known_tags

    # What each component says for itself

    @property
    def _place(self) -> str:
        """Where its spans stand, for errors."""
        raise NotImplementedError

    def _labels_in(self, doc: Doc) -> Iterable[str]:
        """Those of a reference's spans."""
        raise NotImplementedError

    def _forget(self) -> None:
        """Take back what `cfg` says of an earlier training."""

    def _make_tags(self) -> Tags:
        """The tags of the labels."""
        raise NotImplementedError
