"""The labels of a component that finds spans."""

from typing import Any

from spacy.vocab import Vocab
from thinc.api import Model


class SpanLabels:
    """Keeps labels in `cfg["labels"]`, to which none can be added once the model has a size."""

    vocab: Vocab
    model: Model
    name: str
    cfg: dict[str, Any]

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
