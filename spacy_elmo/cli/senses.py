"""Command `python -m spacy elmo senses`."""

from pathlib import Path
from typing import Any, Optional

import typer

from ..files import is_stream
from ..files.optional import import_optional
from ..files.terminal import msg
from .errors import check_new
from .options import FORCE, FORMAT, LANG, MODEL


def senses_cli(
    model: str = MODEL,
    corpus: Optional[list[str]] = typer.Argument(
        None, help="Text to search: files, folders or globs of text, or .spacy files"
    ),
    word: list[str] = typer.Option([], help="A word to show; may be repeated"),
    output: Path = typer.Option("senses.html", "--output", "-o", help="HTML page to write"),
    gold: Optional[str] = typer.Option(
        None,
        help="Labels to compare, such as senses or centuries: 'spans:NAME', the labels of a span "
        "group of .spacy files",
    ),
    ignore_case: bool = typer.Option(
        False, "--ignore-case", help="Count 'Bank' as an occurrence of 'bank'"
    ),
    limit: int = typer.Option(
        2000, min=1, max=5000, help="Maximum number of occurrences to draw per word"
    ),
    projection: str = typer.Option("pca", help="'pca' or 'tsne'"),
    seed: int = typer.Option(0, help="Random seed of groups, t-SNE and permutations"),
    sentence: list[str] = typer.Option(
        [], help="Sentence to compare, with spaces between tokens; give two sentences"
    ),
    pipeline: Optional[str] = typer.Option(
        None, help="Pipeline whose layer mixes to show (folder or package)"
    ),
    format: str = FORMAT,
    lang: Optional[str] = LANG,
    force: bool = FORCE,
) -> None:
    """Write a page that maps the occurrences of words.

    The page has a map for each layer, and shows groups of occurrences with similar vectors. It is
    one HTML file and needs no network.

    Example: python -m spacy elmo senses en_small text.txt --word bank --word play
    """
    from ..analysis.corpora import read_corpus_docs
    from ..analysis.occurrences import draw_occurrences
    from ..pipeline.load import language_of, read_pipeline
    from ..pipeline.mixes import learned_mixes
    from ..viewer.page import write_page
    from ..viewer.sections import make_heat, make_senses, mix_section
    from ..viewer.senses import check_projection

    check_new(output, force=force)
    texts = corpus or []
    if bool(texts) != bool(word):
        raise ValueError("CORPUS and --word need each other. Give both")
    if len(sentence) not in (0, 2):
        raise ValueError(f"expected two sentences, got {len(sentence)}. Give --sentence twice")
    if not (word or sentence or pipeline):
        raise ValueError("nothing to show. Give CORPUS and --word, --sentence twice, or --pipeline")
    check_projection(projection)
    if word:
        import_optional("sklearn", "The grouping of a word's occurrences")
    nlp = read_pipeline(model)
    sections = []
    if word:
        language = lang or language_of(nlp, model)
        docs = read_corpus_docs(texts, format=format, lang=language)
        drawn = draw_occurrences(
            docs, word, limit=limit, gold=gold, ignore_case=ignore_case, vocab=nlp.vocab
        )
        settings = {} if gold is None else {"gold": gold}
        section = make_senses(
            nlp, drawn, projection=projection, seed=seed, lang=language, **settings
        )
        sections.append(section)
        for notice in filter(None, (each["notice"] for each in section["words"])):
            msg.warn(notice)
        show_changes(section)
    if sentence:
        one, other = sentence
        sections.append(make_heat(nlp, one.split(), other.split()))
    if pipeline:
        sections.append(mix_section(learned_mixes(read_pipeline(pipeline))))
    title = "Two sentences" if sentence else "Layer mixes"
    title = f"Occurrences of {', '.join(word)}" if word else title
    write_page(output, title, sections, read=(model, *texts))
    if not is_stream(output):
        msg.good(f"Wrote {output}", f"{output.stat().st_size / 1e6:.2f} MB")


def show_changes(section: dict[str, Any]) -> None:
    """Print the distances of labels in the last view, the pipe's mix, with the p of the test.

    section (dict): The section of the page.
    """
    rows = [
        (each["word"], row[0], row[-1])
        for each in section["words"]
        for row in each["changes"]["rows"]
    ]
    if rows:
        view = section["views"][-1]
        msg.table(rows, header=("word", "labels", f"distance, {view}"), divider=True)
