"""Bundle of a model, its softmax and its provenance, independent of the format."""

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
    """Model and everything stored with it; readers return it, writers take it.

    bilm (FrozenBiLM): The layers.
    prediction (Optional[Tuple[FrozenSoftmax, Vocabulary]]): The softmax and its words.
    lang (Optional[str]): The language, if it is known.
    extras (List[str]): Descriptions of everything in the source that this bundle cannot store.
    missing (str): The part of the prediction that is missing: a file name, or "softmax".
    """

    bilm: FrozenBiLM
    prediction: Optional[Prediction] = None
    lang: Optional[str] = None
    extras: list[str] = field(default_factory=list)
    missing: str = "softmax"

    @property
    def provenance(self) -> dict[str, Any]:
        """Description of how the model was made, as JSON; stored with the layers."""
        return self.bilm.provenance

    @provenance.setter
    def provenance(self, provenance: dict[str, Any]) -> None:
        self.bilm.provenance = provenance

    def add_provenance(self, provenance: Any, source: object) -> None:
        """Set provenance and language, if the file has a provenance.

        provenance (Any): The file's entry; None if there is none.
        source (object): The file, for error messages.
        RAISES (ValueError): The entry is invalid, see `checked_provenance`.
        """
        if provenance is not None:
            self.provenance = checked_provenance(provenance, source)
            self.lang = provenance.get("lang")


def checked_provenance(provenance: Any, source: object) -> dict[str, Any]:
    """Check the provenance in a file.

    provenance (Any): The file's entry.
    source (object): The file, for error messages.
    RETURNS (dict): The entry.
    RAISES (ValueError): It is not a JSON object, its language is not a string, or it contains
        half of a surrogate pair, which UTF-8 cannot encode.
    """
    if not isinstance(provenance, dict):
        raise ValueError(f"{source}: its provenance is no JSON object")
    lang = provenance.get("lang")
    if not isinstance(lang, (str, type(None))):
        raise ValueError(
            f"{source}: 'lang' in its provenance is {shortened(lang)}. It must be a language "
            f"code, such as 'en'"
        )
    with named_errors(f"{source}: its provenance is not UTF-8", UnicodeEncodeError):
        srsly.json_dumps(provenance).encode()
    return provenance
