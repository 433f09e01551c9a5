"""Vectors of a Doc: hooks that use `doc.tensor`.

The `elmo` pipe sets hooks for `.vector`, `.has_vector` and `.similarity`. They use `doc.tensor`,
even if the vocab has static vectors. If a component such as spaCy's `doc_cleaner` has removed the
tensor, the hooks return what spaCy returns without hooks.
"""

import warnings
from typing import Any, Union

import numpy as np
from spacy.errors import Warnings
from spacy.lexeme import Lexeme
from spacy.tokens import Doc, Span, Token

KEPT = "elmo_tensor"  # Key of `doc.user_data`. Value: `doc.tensor`.

Item = Union[Doc, Span, Token]


def set_hooks(doc: Doc) -> None:
    """Set the hooks of a Doc, so that Doc, spans and tokens have vectors from `doc.tensor`."""
    doc.user_hooks.update(vector=doc_vector, has_vector=has_vector, similarity=similarity)
    doc.user_span_hooks.update(vector=span_vector, has_vector=has_vector, similarity=similarity)
    doc.user_token_hooks.update(
        vector=token_vector, has_vector=has_vector, similarity=token_similarity
    )


def has_hooks(doc: Doc) -> bool:
    """Check whether `set_hooks` was called for a Doc."""
    return doc.user_token_hooks.get("vector") is token_vector


def keep_vectors(doc: Doc) -> Doc:
    """Store `doc.tensor` in `doc.user_data`, so that a DocBin contains it.

    Use `DocBin(store_user_data=True)`. After loading, `restore_vectors` sets the tensor again.
    """
    doc.user_data[KEPT] = doc.tensor
    return doc


def restore_vectors(doc: Doc) -> Doc:
    """Restore the contextual vectors of a Doc that was copied or read from bytes.

    Call this for Docs from `nlp.pipe(n_process=2)`, `Doc.from_bytes` or a `DocBin`. Before you add
    a Doc to a `DocBin`, call `keep_vectors`.

    RAISES (ValueError): The Doc has no vectors to restore.
    """
    tensor = doc.user_data.pop(KEPT, None)
    if tensor is not None:
        doc.tensor = tensor
    if len(doc) and not _has_rows(doc):
        raise ValueError(f"no contextual vectors to restore: {_why_no_rows(doc)}")
    set_hooks(doc)
    return doc


def token_vector(token: Token) -> np.ndarray:
    """Return the vector of a token, its row in `doc.tensor`. *Shape:* `(width,)`."""
    return token.doc.tensor[token.i] if _has_rows(token.doc) else _without_hooks(token).vector


def span_vector(span: Span) -> np.ndarray:
    """Return the mean of the token vectors of a span. *Shape:* `(width,)`."""
    if not _has_rows(span.doc):
        return _without_hooks(span).vector
    return _mean(span.doc.tensor[span.start : span.end])


def doc_vector(doc: Doc) -> np.ndarray:
    """Return the mean of the token vectors of a Doc. *Shape:* `(width,)`."""
    return _mean(doc.tensor) if _has_rows(doc) else _without_hooks(doc).vector


def has_vector(item: Item) -> bool:
    """Check whether an item has a contextual vector or, if its Doc has no tensor, a static one."""
    doc = _doc_of(item)
    return doc.tensor.size > 0 if _has_rows(doc) else _without_hooks(item).has_vector


def token_similarity(token: Token, other: Any) -> float:
    """Compute the cosine of a token's vector and another item's vector.

    A Lexeme has no contextual vector. If `other` is a Lexeme, it is compared with the token's own
    Lexeme, by their static vectors.
    """
    if not isinstance(other, Lexeme) or not _has_rows(token.doc):
        return similarity(token, other)
    # The same text has the similarity 1 even without vectors, as in spaCy.
    if token.orth == other.orth:
        return 1.0
    if token.vocab.vectors_length == 0:
        return _no_lexeme_vector(other)
    return float(token.lex.similarity(other))


def similarity(item: Item, other: Any) -> float:
    """Compute the cosine of two contextual vectors; 0 if one is missing, as for a Lexeme.

    RAISES (ValueError): The vectors have different widths.
    """
    given = other
    plain, other = _without_hooks(item), _without_hooks(other)
    if plain is not item and not (not isinstance(other, Lexeme) and has_hooks(_doc_of(other))):
        return float(plain.similarity(other))
    if isinstance(other, Lexeme):
        return _no_lexeme_vector(other)
    one, two = np.asarray(item.vector), np.asarray(other.vector)
    norms = np.linalg.norm(one) * np.linalg.norm(two)
    if norms == 0:
        _warn_empty(item, given)
        return 0.0
    if one.shape != two.shape:
        raise ValueError(
            f"cannot compare vectors of {one.shape[0]} and {two.shape[0]} dimensions. "
            f"Process both texts with the same pipeline."
        )
    return float((np.dot(one, two) / norms).item())


def _doc_of(item: Item) -> Doc:
    return item if isinstance(item, Doc) else item.doc


def _has_rows(doc: Doc) -> bool:
    """Check whether `doc.tensor` has a row for each token."""
    return np.ndim(doc.tensor) == 2 and len(doc.tensor) == len(doc)


def _why_no_rows(doc: Doc) -> str:
    """Say why a Doc has no contextual vectors, and what to do."""
    if np.ndim(doc.tensor) == 2 and len(doc.tensor):
        return (
            f"doc.tensor has {len(doc.tensor)} rows, but the Doc {len(doc)} tokens. It was "
            f"retokenized after 'elmo': put 'elmo' after the component that retokenizes."
        )
    return (
        f"doc.tensor is empty, but the Doc has {len(doc)} tokens. Leave out the component that "
        f"removes it, or call keep_vectors(doc) before you add the Doc to a "
        f"DocBin(store_user_data=True)."
    )


def _warn_empty(item: Item, other: Item) -> None:
    """Warn as spaCy does if the similarity is 0 because an item has no vector."""
    for one in (item, other):
        if one.has_vector:
            continue
        doc, kind = _doc_of(one), type(one).__name__
        if one.vocab.vectors.n_keys == 0:
            warnings.warn(Warnings.W007.format(obj=kind), stacklevel=3)
        reason = f" {_why_no_rows(doc)}" if has_hooks(doc) and len(doc) else ""
        warnings.warn(Warnings.W008.format(obj=kind) + reason, stacklevel=3)


def _without_hooks(item: Any) -> Any:
    """Return the item or, if its Doc has hooks but no tensor, a copy without hooks.

    The copy has spaCy's own vectors. The hooks of the original are not removed, because its tensor
    may be set again.
    """
    own = _doc_of(item) if isinstance(item, (Doc, Span, Token)) else None
    if own is None or not has_hooks(own) or _has_rows(own):
        return item
    words = [item.text] if isinstance(item, Token) else [token.text for token in item]
    doc = Doc(item.vocab, words)
    return doc[0] if isinstance(item, Token) else doc[:] if isinstance(item, Span) else doc


def _no_lexeme_vector(lexeme: Lexeme) -> float:
    warnings.warn(
        f"'{lexeme.text}' is a Lexeme, which has no contextual vector: similarity is 0",
        stacklevel=3,
    )
    return 0.0


def _mean(rows: np.ndarray) -> np.ndarray:
    if not len(rows):
        # NumPy's mean of no rows is NaN, but an empty Doc or span has a vector of zeros in spaCy.
        return np.zeros(rows.shape[1:], dtype="float32")
    return rows.mean(axis=0)
