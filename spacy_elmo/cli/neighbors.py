"""Command `python -m spacy elmo neighbors`."""

from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Optional

import srsly
import typer

from ..files.terminal import one_line
from .errors import check_new
from .options import AS_JSON, FORCE, FORMAT, HTML, LANG, MODEL, SENTENCE, TOKEN
from .output import Fit, cut_text, print_table

MAX_WORD = 20  # Maximum number of characters of a token to show.


def neighbors_cli(
    model: str = MODEL,
    corpus: list[str] = typer.Argument(
        ..., help="Text to search: files, folders or globs of text, or .spacy files"
    ),
    sentence: str = SENTENCE,
    token: str = TOKEN,
    layer: str = typer.Option("top", help="Number of a layer, 'top', or 'average' of all"),
    n: int = typer.Option(10, "--n", "-n", min=1, help="Neighbors to show"),
    same_word: Optional[bool] = typer.Option(
        None,
        "--same-word/--other-words",
        help="Only occurrences of the same word (ignoring case), or only other words; "
        "default: both",
    ),
    format: str = FORMAT,
    lang: Optional[str] = LANG,
    as_json: bool = AS_JSON,
    html: Optional[Path] = HTML,
    force: bool = FORCE,
) -> None:
    """Find the tokens of a corpus nearest to a token.

    The nearest tokens have the largest cosine of contextual vectors (table 4 of the paper). The
    corpus is read in pieces, so it can have any size.

    Example: python -m spacy elmo neighbors en_small text.txt
    --sentence "He made a great play ." --token play
    """
    from ..analysis.corpora import read_corpus_docs
    from ..analysis.neighbors import find_neighbors, find_token
    from ..pipeline.load import language_of, read_pipeline

    check_new(html, force=force)
    tokens = sentence.split()
    position = find_token(tokens, token)
    nlp = read_pipeline(model)
    docs = read_corpus_docs(corpus, format=format, lang=lang or language_of(nlp, model))
    found = find_neighbors(nlp, tokens, position, docs, layer=layer, n=n, same_word=same_word)
    if html is not None:
        from ..viewer.page import write_page
        from ..viewer.sections import neighbors_section

        section = neighbors_section(tokens, position, found, layer=layer)
        write_page(html, f"Neighbors of {tokens[position]}", [section], read=(model, *corpus))
    if as_json:
        neighbors = [{**one._asdict(), "word": one.word} for one in found]
        asked = {"sentence": tokens, "position": position, "word": tokens[position]}
        print(srsly.json_dumps({**asked, "layer": layer, "neighbors": neighbors}, indent=2))
        return
    rows: list[tuple[str, str, Fit]] = [("", "", partial(marked, tokens, position))]
    for one in found:
        fit = partial(marked, one.sentence, one.position)
        rows.append((f"{one.similarity:.3f}", cut_text(one_line(one.word), MAX_WORD), fit))
    print_table(rows, ("cosine", "token", "sentence"), ("r", "l", "l"))


def marked(tokens: Sequence[str], position: int, width: int) -> str:
    """Return the token at `position` in brackets, with as much context as fits into `width`."""
    tokens, shown = [one_line(token) for token in tokens], ""
    for context in range(len(tokens) + 1):
        start, end = max(0, position - context), position + context + 1
        parts = [
            *(["…"] if start else []),
            *tokens[start:position],
            f"[{tokens[position]}]",
            *tokens[position + 1 : end],
            *(["…"] if end < len(tokens) else []),
        ]
        wider = " ".join(parts)
        if len(wider) > width or wider == shown:
            break
        shown = wider
    return shown or cut_text(f"[{tokens[position]}]", width)
