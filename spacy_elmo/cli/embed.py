"""`python -m spacy elmo embed`"""

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
        help="Text: .txt, .jsonl, .tsv, .conllu, .conll, .parquet, .spacy; files, folders or "
        "globs, URLs",
    ),
    output: str = typer.Argument(..., help="What to write; with --shards, a folder or URL"),
    layers: str = typer.Option(
        "vector",
        help="'vector' (the pipe's mix, as token.vector), 'all', 'top', 'average', the number of "
        "a layer, or 'mix:PIPE', the mix that a component learned",
    ),
    format: Optional[str] = typer.Option(
        None,
        help="'hdf5', 'npz', 'parquet' or 'spacy' (a folder); default: what OUTPUT's name says, "
        "of shards 'parquet'",
    ),
    dtype: str = typer.Option(
        "float32", help="Type of the vectors: 'float32', 'float16', or 'int8' with scales"
    ),
    pool: Optional[str] = typer.Option(
        None, help="One vector, the mean, a 'sentence', 'doc', or 'span' of --only"
    ),
    only: Optional[str] = typer.Option(
        None, help="Keep tokens of 'ents', 'nouns', or of spans with these labels: PERSON,ORG"
    ),
    tokenize: bool = typer.Option(
        False,
        "--tokenize",
        help="Text files hold running text, not a sentence a line, its tokens separated by spaces",
    ),
    column: Optional[str] = typer.Option(
        None,
        help="Of .tsv files, the column of text: its name in the first line, or its number from "
        "1; of .conll files, the number of the column of words, default: 1",
    ),
    lang: Optional[str] = typer.Option(
        None,
        help="Language of spaCy's tokenizer, if MODEL is no pipeline; default: that of the "
        "weights, or en",
    ),
    precision: Optional[str] = typer.Option(
        None, help="'float32', 'bfloat16', 'int8' or 'auto'; default: the pipe's"
    ),
    initial_state: Optional[str] = typer.Option(
        None, help="'zeros', 'warm' or 'carry'; default: the pipe's"
    ),
    batch_tokens: Optional[int] = typer.Option(
        None, help="Most tokens that run side by side; default: the pipe's"
    ),
    max_tokens: int = typer.Option(10_000, help="Most tokens of a sentence or Doc"),
    sentence_marks: bool = typer.Option(
        False, "--sentence-marks", help="Keep the vectors of <S> and </S> around each sentence"
    ),
    forget_sentences: bool = typer.Option(
        False, "--forget-sentences", help="Leave sentence_to_index and texts out"
    ),
    use_sentence_keys: bool = typer.Option(
        False, "--use-sentence-keys", help="Sentences name the datasets of HDF5, not numbers"
    ),
    shards: Optional[int] = typer.Option(None, help="Write a folder of at most this many files"),
    workers: str = typer.Option(
        "1",
        help="Processes on this machine; several have one thread each. 'ray': a Ray cluster's",
    ),
    worker: Optional[str] = typer.Option(
        None, help="K/N: make every N-th shard from the K-th on, as job K of an array of N jobs"
    ),
    address: Optional[str] = typer.Option(
        None, help="Address of the Ray cluster; default: RAY_ADDRESS, or one that is started here"
    ),
    gpus_per_worker: float = typer.Option(0, help="GPUs of each of Ray's workers, 0.5 for a half"),
    resume: bool = typer.Option(
        False, "--resume", help="Resume an unfinished output; done if it is finished"
    ),
    force: bool = typer.Option(
        False, "--force", "-F", help="Replace an existing output; without --resume, begin again"
    ),
) -> None:
    """Write the vectors of a text, of any size, to a file: HDF5 as AllenNLP's command
    elmo, .npz, Parquet, or spaCy Docs. It appears when it is whole. After an interruption, run the
    same command again: it resumes.

    Example: python -m spacy elmo embed en_small text.txt vectors.hdf5 --layers all
    """
    options: dict[str, Any] = dict(locals())
    options["workers"] = int(workers) if workers.isdecimal() else workers
    options["sentence_index"] = not options.pop("forget_sentences")
    options["sentence_keys"] = options.pop("use_sentence_keys")
    from ..export.sharding import embed_corpus

    with stopped("Stopped; the same command with --resume goes on from here"):
        counts = embed_corpus(**options)
    msg.good(f"Wrote {output}", f"{counts.entries:,} entries, {counts.tokens:,} tokens")
