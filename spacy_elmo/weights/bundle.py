"""A model and all that stands with it, whatever the format."""

from dataclasses import dataclass, field
from typing import Any, Optional

from ..bilm.model import BiLM
from ..bilm.softmax import Softmax
from ..bilm.vocabulary import Vocabulary

Prediction = tuple[Softmax, Vocabulary]


@dataclass
class ModelBundle:
    """A model and all that stands with it: what a reader gives and a writer takes.

    bilm (BiLM): The layers.
    prediction (Optional[Tuple[Softmax, Vocabulary]]): The softmax, and its words.
    lang (Optional[str]): The language, if it is known.
    provenance (dict): How the model came about, as JSON.
    extras (List[str]): What no other place has room for, in words.
    missing (str): What there is not of the softmax and its words: a file, or "softmax".
    """

    bilm: BiLM
    prediction: Optional[Prediction] = None
    lang: Optional[str] = None
    provenance: dict[str, Any] = field(default_factory=dict)
    extras: list[str] = field(default_factory=list)
    missing: str = "softmax"

    def add_provenance(self, provenance: Any, source: object) -> None:
        """Take over what a file says of its model, if it says anything: with it the language.

        provenance (Any): The file's entry; None if there is none.
        source (object): The file, for the message.
        RAISES (ValueError): It is no JSON object.
        """
        if not isinstance(provenance, (dict, type(None))):
            raise ValueError(f"{source}: its provenance is no JSON object")
        if provenance is not None:
            self.provenance = self.bilm.provenance = provenance
            self.lang = provenance.get("lang")
