"""How much of a text's tokens a model reads."""

from collections import Counter
from collections.abc import Sequence
from typing import Any, Optional

from ..frozen.config import BiLMConfig
from ..text.reading import find_files, read_sentences

EXAMPLES = 5


def audit_tokens(
    sizes: BiLMConfig,
    inputs: Sequence[str],
    *,
    format: str = "sentences",
    lang: Optional[str] = None,
) -> dict[str, Any]:
    """Count the tokens of a text that are longer than a model reads: two tokens that begin
    alike are one to it.

    sizes (BiLMConfig): Of the model: bytes or code points, and how many.
    inputs (Sequence[str]): Files, folders or globs of text.
    format (str): What text files hold: "sentences" or "text", as in `load_text`.
    lang (Optional[str]): Language of spaCy's tokenizer for running text.
    RETURNS (dict): As JSON: the tokens, those that are cut, their share, the most frequent
        of them, and the unit and the limit.
    RAISES (ValueError): The model reads no characters, or the text cannot be read.
    """
    if not sizes.n_characters:
        raise ValueError("a model of words cuts no token: it has no characters to audit")
    limit = sizes.max_characters_per_token - 2  # without the marks of start and end
    is_bytes = sizes.token_encoder == "bilm-tf"
    n_tokens, cut = 0, Counter[str]()
    for sentence in read_sentences(find_files(inputs), format=format, lang=lang):
        n_tokens += len(sentence)
        cut.update(
            token
            for token in sentence
            if len(token) > limit or (is_bytes and len(token.encode("utf8", "ignore")) > limit)
        )
    if not n_tokens:
        raise ValueError(f"no token in {', '.join(inputs)}")
    n_cut = sum(cut.values())
    return {
        "tokens": n_tokens,
        "cut": n_cut,
        "share": n_cut / n_tokens,
        "limit": f"{limit} {'UTF-8 bytes' if is_bytes else 'code points'}",
        "most frequent": [token for token, _ in cut.most_common(EXAMPLES)],
    }
