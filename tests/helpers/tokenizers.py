"""English and German tokenizers with few special cases, which are made much faster.

spaCy has 1,347 for English, most of them contractions such as "shouldn't've" and emoticons, and
makes them for each pipeline, twice if it is read from disk: most of the time of a test with a small
pipeline. Our code knows none of them. Those in the texts of the tests stay. New processes that
tests start have all of them, and examples of pages and cards all that are in their texts (fixture
`special_cases`).
"""

from spacy.lang.de import German
from spacy.lang.en import English
from spacy.language import Language

KEPT = {
    *("Dr.", "Mr.", "Prof.", "d.h.", "z.", "z.B."),
    *("don't", "Don't", "isn't", "can't", "Can't", "didn't", "cannot", "gonna", "dont"),
    *("he's", "He's", "she's", "She's", "it's", "It's", "that's", "That's", "there's", "There's"),
    *("what's", "What's", "who's", "Who's", "let's", "Let's", "id", "Id", "Wed"),
}


ALL = {language: language.Defaults.tokenizer_exceptions for language in (English, German)}


def leave_out_special_cases() -> None:
    """Pipelines that are made from now on have few special cases."""
    for language in ALL:
        language.Defaults.tokenizer_exceptions = special_cases(language)


def special_cases(language: type[Language], text: str = "") -> dict[str, list[dict[int, str]]]:
    """Return the special cases that tests have, and those that are in a text."""
    return {
        found: tokens
        for found, tokens in ALL[language].items()
        if found in KEPT or found.isspace() or found in text
    }
