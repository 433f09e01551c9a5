"""`python -m spacy elmo perplexity`"""

from pathlib import Path
from typing import Optional

import srsly
import typer
from wasabi import msg

from .errors import no_traceback


def perplexity_cli(
    model: Path = typer.Argument(..., help="Model that `spacy elmo pretrain` wrote"),
    inputs: list[str] = typer.Argument(..., help="Held-out text: files, folders or globs"),
    format: str = typer.Option(
        "sentences", help="'sentences' (one a line, tokens separated by spaces) or 'text'"
    ),
    lang: str = typer.Option("en", help="Language of spaCy's tokenizer for running text"),
    output: Optional[Path] = typer.Option(None, "--output", "-o", help="JSON file to write"),
) -> None:
    """Evaluate a language model on held-out text, by the full softmax.

    Example: python -m spacy elmo perplexity pretraining/model-best dev.txt
    """
    from ..pretraining.corpus import find_files, read_corpus, read_sentences
    from ..pretraining.language_model import read_language_model
    from ..pretraining.perplexity import perplexity

    with no_traceback():
        if format not in ("sentences", "text"):
            raise ValueError(f"--format must be 'sentences' or 'text', got '{format}'")
        language_model = read_language_model(model)
        sentences = read_sentences(find_files(inputs), running_text=format == "text", lang=lang)
        figures = perplexity(language_model, read_corpus(sentences, ", ".join(inputs))).to_dict()
        if output is not None:
            srsly.write_json(output, figures)
    rows = [
        ("forward perplexity", f"{figures['forward']:.2f}"),
        ("backward perplexity", f"{figures['backward']:.2f}"),
        ("mean perplexity", f"{figures['mean']:.2f}"),
        ("predictions a direction", f"{figures['n_tokens']:,}"),
        ("unknown words", f"{figures['unknown']:.2%}"),
    ]
    msg.table(rows, aligns=("l", "r"))
