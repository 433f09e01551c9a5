"""A model and all that stands with it, whatever the format."""

from dataclasses import dataclass, field
from typing import Any, Optional

import srsly

from ..files.errors import named_errors
from ..frozen.config import shortened
from ..frozen.model import FrozenBiLM
from ..frozen.softmax import FrozenSoftmax
from ..frozen.vocabulary import Vocabulary

Prediction = tuple[FrozenSoftmax, Vocabulary]


@dataclass
class ModelBundle:
    """A model and all that stands with it: what a reader gives and a writer takes.

    bilm (FrozenBiLM): The layers.
    prediction (Optional[Tuple[FrozenSoftmax, Vocabulary]]): The softmax, and its words.
    lang (Optional[str]): The language, if it is known.
    provenance (dict): How the model came about, as JSON.
    extras (List[str]): What no other place has room for, in words.
    missing (str): What there is not of the softmax and its words: a file, or "softmax".
    """

    bilm: FrozenBiLM
    prediction: Optional[Prediction] = None
    lang: Optional[str] = None
    provenance: dict[str, Any] = field(default_factory=dict)
    extras: list[str] = field(default_factory=list)
    missing: str = "softmax"

    def add_provenance(self, provenance: Any, source: object) -> None:
        """Take over what a file says of its model, if it says anything: with it the language.

        provenance (Any): The file's entry; None if there is none.
        source (object): The file, for the message.
        RAISES (ValueError): As `checked_provenance`.
        """
        if provenance is not None:
            self.provenance = self.bilm.provenance = checked_provenance(provenance, source)
            self.lang = provenance.get("lang")


def checked_provenance(provenance: Any, source: object) -> dict[str, Any]:
    """Check what a file says of its model.

    provenance (Any): The file's entry.
    source (object): The file, for the message.
    RETURNS (dict): The entry.
    RAISES (ValueError): It is no JSON object, its language is no string, or it has half of a
        surrogate pair, which no file can hold.
    """
    if not isinstance(provenance, dict):
        raise ValueError(f"{source}: its provenance is no JSON object")
    lang = provenance.get("lang")
    if not isinstance(lang, (str, type(None))):
        raise ValueError(
            f"{source}: 'lang' in its provenance is {shortened(lang)}. It must be the code of a "
            f"language, such as 'en'"
        )
    with named_errors(f"{source}: its provenance is not UTF-8", UnicodeEncodeError):
        srsly.json_dumps(provenance).encode()
    return provenance
