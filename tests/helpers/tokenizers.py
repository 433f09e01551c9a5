"""English and German tokenizers with few special cases, which are made much faster.

spaCy has 1,347 for English, most of them contractions such as "shouldn't've" and emoticons, and
makes them for each pipeline, twice if it is read from disk: most of the time of a test with a small
pipeline. Our code knows none of them. Those that tests ask for stay. New processes that
tests start have all of them, and examples of pages and cards all that are in their texts (fixture
`special_cases`).
"""

from collections.abc import Callable

from spacy.lang.de import German
from spacy.lang.en import English

KEPT = {"can't", "don't", "d.h.", "z.", "z.B."}
ALL = {language: language.Defaults.tokenizer_exceptions for language in (English, German)}


def leave_out_special_cases(text: str = "", put: Callable[..., None] = setattr) -> None:
    """Pipelines that are made from now on have few special cases, and those in a text.

    put (Callable): Sets an attribute, such as `monkeypatch.setattr`.
    """
    for language, known in ALL.items():
        kept = (case for case in known if case in KEPT or case.isspace() or case in text)
        put(language.Defaults, "tokenizer_exceptions", {case: known[case] for case in kept})
