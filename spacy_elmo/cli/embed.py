"""Command `python -m spacy elmo embed`."""

from typing import Any, Optional

import typer

from ..files.terminal import msg
from .errors import stopped
from .options import MODEL


def embed_cli(
    model: str = MODEL,
    inputs: list[str] = typer.Argument(
        ...,
        metavar="INPUT...",
        help="Text (.txt, .jsonl, .tsv, .conllu, .conll, .parquet, .spacy): files, folders, globs "
        "or URLs",
    ),
    output: str = typer.Argument(..., help="Output file; with --shards a folder or URL"),
    layers: str = typer.Option(
        "vector",
        help="'vector' (the pipe's mix, like token.vector), 'all', 'top', 'average', the number of "
        "a layer, or 'mix:PIPE', the mix that the component PIPE learned",
    ),
    format: Optional[str] = typer.Option(
        None,
        help="'hdf5', 'npz', 'parquet' or 'spacy' (a folder); default: by the suffix of OUTPUT, "
        "'parquet' for shards",
    ),
    dtype: str = typer.Option(
        "float32", help="Type of the vectors: 'float32', 'float16', or 'int8' with scales"
    ),
    pool: Optional[str] = typer.Option(
        None,
        help="Write one mean vector per 'sentence', per 'doc', or per 'span' that --only selects",
    ),
    only: Optional[str] = typer.Option(
        None,
        help="Only tokens in entities ('ents'), only nouns ('nouns'), or only tokens in spans with "
        "these labels (PERSON,ORG)",
    ),
    tokenize: bool = typer.Option(
        False,
        "--tokenize",
        help="Text files contain running text. Default: one sentence per line, its tokens "
        "separated by spaces",
    ),
    column: Optional[str] = typer.Option(
        None,
        help="In .tsv files: column of the text, as a name in the first line or a number from 1. "
        "In .conll files: number of the column of the words; default: 1",
    ),
    lang: Optional[str] = typer.Option(
        None,
        help="Language of spaCy's tokenizer, if MODEL is not a pipeline; default: the language of "
        "the weights, or en",
    ),
    precision: Optional[str] = typer.Option(
        None, help="'float32', 'bfloat16', 'int8' or 'auto'; default: the pipe's"
    ),
    initial_state: Optional[str] = typer.Option(
        None, help="'zeros', 'warm' or 'carry'; default: the pipe's"
    ),
    batch_tokens: Optional[int] = typer.Option(
        None, help="Maximum number of tokens in a batch; default: the pipe's"
    ),
    max_tokens: int = typer.Option(10_000, help="Maximum number of tokens in a sentence or Doc"),
    sentence_marks: bool = typer.Option(
        False, "--sentence-marks", help="Also write the vectors of <S> and </S> of each sentence"
    ),
    forget_sentences: bool = typer.Option(
        False, "--forget-sentences", help="Do not write sentence_to_index and texts"
    ),
    use_sentence_keys: bool = typer.Option(
        False, "--use-sentence-keys", help="Name the datasets of HDF5 by sentences, not numbers"
    ),
    shards: Optional[int] = typer.Option(
        None, help="Write a folder with at most this number of files"
    ),
    workers: str = typer.Option(
        "1",
        help="Number of processes on this machine (if several, each has one thread), or 'ray' for "
        "a Ray cluster",
    ),
    worker: Optional[str] = typer.Option(
        None, help="K/N: write the share of job K in an array of N jobs: every N-th shard from K on"
    ),
    address: Optional[str] = typer.Option(
        None, help="Address of the Ray cluster; default: RAY_ADDRESS, or start a local one"
    ),
    gpus_per_worker: float = typer.Option(0, help="GPUs per Ray worker, such as 0.5"),
    resume: bool = typer.Option(
        False, "--resume", help="Resume an unfinished output; do nothing if it is finished"
    ),
    force: bool = typer.Option(
        False, "--force", "-F", help="Replace an existing output; without --resume, start again"
    ),
) -> None:
    """Write the vectors of a text of any size to a file.

    Formats: HDF5 like AllenNLP's command elmo, .npz, Parquet, or spaCy Docs. The output gets its
    name when it is complete. If the command is interrupted, run it again: it resumes.

    Example: python -m spacy elmo embed en_small text.txt vectors.hdf5 --layers all
    """
    options: dict[str, Any] = dict(locals())
    options["workers"] = int(workers) if workers.isdecimal() else workers
    options["sentence_index"] = not options.pop("forget_sentences")
    options["sentence_keys"] = options.pop("use_sentence_keys")
    from ..export.sharding import embed_corpus

    with stopped("Stopped. To resume, run the same command with --resume"):
        counts = embed_corpus(**options)
    msg.good(f"Wrote {output}", f"{counts.entries:,} entries, {counts.tokens:,} tokens")
