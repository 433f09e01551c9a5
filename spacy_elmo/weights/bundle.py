"""Content of a model in any format: the biLM, its softmax and its provenance."""

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
    """Content of a model. Readers return a bundle, and writers write a bundle.

    bilm (FrozenBiLM): The biLM.
    prediction (Optional[Tuple[FrozenSoftmax, Vocabulary]]): The softmax and its words.
    lang (Optional[str]): The language code; None if unknown.
    extras (List[str]): Descriptions of everything in the source that a bundle cannot store.
    missing (str): The missing part if `prediction` is None: a file name, or "softmax".
    """

    bilm: FrozenBiLM
    prediction: Optional[Prediction] = None
    lang: Optional[str] = None
    extras: list[str] = field(default_factory=list)
    missing: str = "softmax"

    @property
    def provenance(self) -> dict[str, Any]:
        """Description of how the model was made: a JSON object, stored in `bilm`."""
        return self.bilm.provenance

    @provenance.setter
    def provenance(self, provenance: dict[str, Any]) -> None:
        self.bilm.provenance = provenance

    def add_provenance(self, provenance: Any, source: object) -> None:
        """Set provenance and language from the provenance that a file contains.

        provenance (Any): The provenance. If it is None, nothing changes.
        source (object): The file, for error messages.
        RAISES (ValueError): The provenance is invalid, see `checked_provenance`.
        """
        if provenance is not None:
            self.provenance = checked_provenance(provenance, source)
            self.lang = provenance.get("lang")


def checked_provenance(provenance: Any, source: object) -> dict[str, Any]:
    """Check the provenance of a file, and return it.

    provenance (Any): The provenance.
    source (object): The file, for error messages.
    RETURNS (dict): The same provenance.
    RAISES (ValueError): The provenance is not a JSON object, its language is not a string, or it
        contains a lone surrogate, which UTF-8 cannot encode.
    """
    if not isinstance(provenance, dict):
        raise ValueError(f"{source}: the provenance is not a JSON object")
    lang = provenance.get("lang")
    if not isinstance(lang, (str, type(None))):
        raise ValueError(
            f"{source}: 'lang' in its provenance is {shortened(lang)}. It must be a language "
            f"code, such as 'en'"
        )
    with named_errors(f"{source}: the provenance is not UTF-8", UnicodeEncodeError):
        srsly.json_dumps(provenance).encode()
    return provenance
