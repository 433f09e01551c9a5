"""Command `python -m spacy elmo perplexity`."""

import math
import warnings
from pathlib import Path
from typing import TYPE_CHECKING, Optional

import srsly
import typer

from ..files import atomic_write, progress_bar
from ..files.terminal import msg
from .errors import check_new
from .options import AS_JSON, FORCE, FORMAT, LANG, LANGUAGE_MODEL

if TYPE_CHECKING:
    from ..language_model.frozen import FrozenLanguageModel
    from ..language_model.perplexity import Perplexity

# Figures and number of words by file.
Evaluations = dict[str, tuple["Perplexity", int]]


def perplexity_cli(
    model: str = LANGUAGE_MODEL,
    inputs: list[str] = typer.Argument(..., help="Held-out text: files, folders or globs"),
    format: str = FORMAT,
    lang: Optional[str] = LANG,
    max_tokens: int = typer.Option(
        0, min=0, help="Number of tokens to read per file, spread evenly over it; 0: all"
    ),
    as_json: bool = AS_JSON,
    output: Optional[Path] = typer.Option(None, "--output", "-o", help="JSON file to write"),
    force: bool = FORCE,
) -> None:
    """Compute the perplexity of a language model.

    With the full softmax, the model predicts every word and one mark per sentence: `</S>` forwards
    and `<S>` backwards. A file is read in at most 64 streams of at least 1,000 tokens. Each stream
    starts from zeros and carries its state from sentence to sentence. With `--max-tokens`, each
    stream ends early. To get the same figure as a pretraining run, set --max-tokens to the run's
    `eval_tokens`.

    Example: python -m spacy elmo perplexity pretraining/model-best dev.txt
    """
    from ..language_model.frozen import read_language_model
    from ..text.reading import find_files

    check_new(output, force=force)
    files = list(dict.fromkeys(find_files(inputs)))
    language_model = read_language_model(model)
    lang = lang or language_model.bilm.provenance.get("lang")
    evaluations = _evaluate(language_model, files, format, lang, max_tokens)
    total = _total(evaluations)
    by_file = {name: one.to_dict() for name, (one, _) in evaluations.items()}
    figures = {"files": by_file, "total": total.to_dict()}
    if output is not None:
        atomic_write(output, srsly.json_dumps(figures, indent=2) + "\n")
    if as_json:
        print(srsly.json_dumps(figures, indent=2))
        return
    rows = [_row(name, one) for name, (one, _) in evaluations.items()]
    if len(rows) > 1:
        rows.append(_row("all", total))
    header = ("file", "forward", "backward", "mean", "predictions", "unknown")
    msg.table(rows, header=header, divider=True, aligns=("l", *"rrrrr"))


def _evaluate(
    model: "FrozenLanguageModel",
    files: list[Path],
    format: str,
    lang: Optional[str],
    max_tokens: int,
) -> Evaluations:
    """Compute the perplexity of each file. Skip files without sentences, with a warning."""
    from ..language_model.perplexity import perplexity
    from ..text.corpus import load_text
    from ..text.reading import read_sentences

    evaluations: Evaluations = {}
    sizes = [file.stat().st_size for file in files]
    with progress_bar(sum(sizes), None, "B", in_logs=False) as bar:
        for file, size in zip(files, sizes):
            bar.set_description(file.name)
            if any(read_sentences([file], format=format, lang=lang)):
                corpus = load_text(file, format=format, lang=lang)
                figures = perplexity(model, corpus, max_items=max_tokens)
                evaluations[str(file)] = figures, corpus.n_words
            else:
                warnings.warn(f"{file} contains no sentences; left out", stacklevel=2)
            bar.update(size)
    if not evaluations:
        raise ValueError(f"no sentences in {', '.join(map(str, files))}. Give files with text")
    return evaluations


def _total(evaluations: Evaluations) -> "Perplexity":
    """Return the perplexity over the predictions of all files together."""
    from ..language_model.perplexity import Perplexity

    n_tokens = sum(one.n_tokens for one, _ in evaluations.values())
    means = {}
    for name in ("forward", "backward", "mean"):
        losses = (math.log(getattr(one, name)) * one.n_tokens for one, _ in evaluations.values())
        means[name] = math.exp(sum(losses) / n_tokens)
    n_words = sum(n for _, n in evaluations.values())
    unknown = sum(one.unknown * n for one, n in evaluations.values()) / n_words
    return Perplexity(**means, n_tokens=n_tokens, unknown=unknown)


def _row(name: str, figures: "Perplexity") -> tuple[str, ...]:
    values = (figures.forward, figures.backward, figures.mean)
    shown = ("-" if math.isnan(value) else f"{value:,.2f}" for value in values)
    return (name, *shown, f"{figures.n_tokens:,}", f"{figures.unknown:.2%}")
