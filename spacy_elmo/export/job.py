"""From a model and text to a file of vectors."""

import hashlib
import json
import warnings
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Any, Optional

from ..embedding.batches import by_tokens
from ..files import checksum, followed, full_disk, is_stream, progress_bar, user_path
from ..files.remote import is_url
from ..text.manifest import stamp
from ..text.reading import Inputs
from .embedder import Embedder
from .entries import Counts, Entry
from .inputs import DOCBIN, find_inputs, read_entries
from .outputs import OUTPUTS, check_format, check_room
from .pieces import Piece
from .workplace import Workplace, check_settings

MAX_TOKENS = 10_000
ADVICE_ANEW = "`force=True` without `resume=True` to begin anew"
ADVICE = "run the same with `resume=True`: it goes on from here"


def embed_files(
    model: str,
    inputs: Inputs,
    output: Path,
    *,
    format: Optional[str] = None,
    tokenize: bool = False,
    column: Optional[str] = None,
    max_tokens: int = MAX_TOKENS,
    sentence_index: bool = True,
    sentence_keys: bool = False,
    resume: bool = False,
    force: bool = False,
    **options: Any,
) -> Counts:
    """Write the vectors of text, in memory that does not grow with it. The output
    appears when it is whole; until then, what there is stands in `OUTPUT.part`.

    model (str): Folder or package of a pipeline, whose pipe `elmo` is used with its
        settings, or what `spacy_elmo.weights.read_weights` reads.
    inputs (Union[str, Path, Iterable[Union[str, Path]]]): Files, folders or globs:
        `.txt`, `.jsonl`, `.tsv`, `.conllu` and `.conll`, gzipped or not, and `.spacy`.
    output (Path): What to write.
    format (Optional[str]): One of `OUTPUTS`; by default what the output's name says.
    tokenize (bool): Whether text files hold running text, for the pipeline to split,
        rather than a sentence a line, its tokens separated by spaces.
    column (Optional[str]): Column of text of `.tsv` files, its name or its number from 1, and
        number of the column of words of `.conll` files.
    max_tokens (int): Most tokens of a sentence or Doc.
    sentence_index (bool): Whether to write the texts (`sentence_to_index`).
    sentence_keys (bool): Whether sentences name the datasets of an HDF5 file, not numbers.
    resume (bool): Whether to go on with a run that was interrupted, if there is one.
    force (bool): Whether to replace an output, and to throw away such a run.
    options: Others of `Embedder`: what is embedded how.
    RETURNS (Counts): How much was written.
    RAISES (ValueError): A setting is impossible, the model or an input cannot be read,
        something is in the way, or the interrupted run had other settings.
    RAISES (OSError): The disk is full, or another process writes the same output.
    """
    output = user_path(output)
    format = check_format(output, format)
    if is_stream(output):
        raise ValueError(f"{output} is no file: vectors are put together on a disk")
    output = followed(output)
    embedder = Embedder(model, **options)
    check_wanted(embedder, format, max_tokens=max_tokens, sentence_keys=sentence_keys)
    pieces = find_inputs(inputs, output, column)
    if urls := list(filter(is_url, pieces)):
        raise ValueError(f"{urls[0]}: URLs are read for `shards`, or copied here before")
    files = [Path(piece.source) for piece in pieces]
    workplace = Workplace(output)
    if not resume:
        check_room(output, format, force)
        if workplace.is_begun and not force:
            raise ValueError(
                f"{workplace.folder} holds an interrupted run: `resume=True` goes on with it, "
                f"`force=True` throws it away"
            )
    check_labels(embedder, pieces)
    settings = {
        **embedder.describe(),
        "inputs": [
            {"name": file.name, "size": file.stat().st_size, "sha256": checksum(file)}
            for file in files
        ],
        "format": format,
        "tokenize": tokenize,
        # Which earlier versions did not write.
        **({} if column is None else {"column": column}),
    }
    if resume and output.exists():
        found = OUTPUTS[format].read_settings(output)
        written = [found.pop(name, None) for name in ("entries", "tokens")]
        if found == settings and all(type(number) is int for number in written):
            workplace.delete()
            return Counts(*written)
        may_replace = workplace.is_begun and workplace.read_manifest()["force"]
        check_room(output, format, force or may_replace)
    try:
        with full_disk(output, ADVICE), workplace.held():
            _prepare(workplace, settings, resume=resume, force=force)
            maker = embedder.maker(keep_docs=format == "spacy")
            read = partial(
                read_entries, pieces, maker, tokenize=tokenize, column=column, max_tokens=max_tokens
            )
            n_chunks, counts = _write_chunks(workplace, embedder, files, read, settings)
            settings = {**settings, "entries": counts.entries, "tokens": counts.tokens}
            more = {"sentence_keys": True} if sentence_keys else {}
            _put_together(workplace, n_chunks, settings, index=sentence_index, **more)
            # Somebody may have written to this name in the meantime.
            check_room(output, format, workplace.read_manifest()["force"] or force)
            workplace.publish()
    except BlockingIOError:  # the folder is another process's
        raise
    except BaseException:
        if not workplace.has_chunks:
            workplace.delete()
        raise
    workplace.delete()
    return counts


def check_wanted(embedder: Embedder, format: str, *, max_tokens: int, sentence_keys: bool) -> None:
    """RAISES (ValueError): Arguments of `embed_files` are impossible, or do not go together."""
    if max_tokens < 1:
        raise ValueError(f"max_tokens must be 1 or more, got {max_tokens}")
    if sentence_keys and format != "hdf5":
        raise ValueError(f"`sentence_keys` is for HDF5, not for {format}")
    is_reduced = embedder.dtype == "int8" or embedder.pool or embedder.only
    if is_reduced and (format not in ("hdf5", "parquet") or sentence_keys):
        raise ValueError("`pool`, `only` and `dtype=int8` are for Parquet and numbered HDF5")
    if embedder.sentence_marks and format == "spacy":
        raise ValueError("`sentence_marks`: a Doc has no token for a mark; write another format")


def check_labels(embedder: Embedder, files: Sequence[Piece]) -> None:
    """RAISES (ValueError): `only` has a label that the pipeline cannot give to text. Docs may
    have any."""
    if not any(file.name.endswith(DOCBIN) for file in files):
        embedder.maker().check_labels()


def warn_of_nothing(embedder: Embedder, counts: Counts) -> None:
    """Warn where entries were read, and no token of them was what `only` asks for."""
    if counts.entries and not counts.vectors and embedder.only is not None:
        warnings.warn(f"`only={embedder.only}`: no row has a token", stacklevel=3)


def _prepare(workplace: Workplace, settings: dict[str, Any], *, resume: bool, force: bool) -> None:
    """Go on with what is there, or begin."""
    if not (resume and workplace.is_begun):
        workplace.begin({"force": force, "settings": settings})
        return
    check_settings(workplace.folder, workplace.read_manifest()["settings"], settings, ADVICE_ANEW)


def _write_chunks(
    workplace: Workplace,
    embedder: Embedder,
    files: Sequence[Path],
    read: Callable[..., Iterator[Entry]],
    settings: dict[str, Any],
) -> tuple[int, Counts]:
    """Embed what is not embedded yet. Where chunks end depends on the input alone."""
    stamps = [stamp(file) for file in files]
    run = hashlib.sha256(json.dumps(settings).encode("ascii")).hexdigest()
    group_embedder, max_tokens = embedder.group_embedder(), embedder.group_tokens
    number, counts = 0, Counts()
    with progress_bar(sum(about["size"] for about in stamps), "Embedding", "B") as bar:
        groups = by_tokens(counts.of(read(progress=bar.update)), max_tokens, max_tokens)
        for number, group in enumerate(groups, 1):
            group_embedder.encode(group)
            digest = _digest(run, number - 1, group)
            if not workplace.find_chunk(number - 1, digest):
                workplace.write_chunk(number - 1, digest, group_embedder.embed(group))
    names = ", ".join(map(str, files[:5]))
    if not counts.entries:
        raise ValueError(f"no sentence in {names}")
    if stamps != [stamp(file) for file in files]:
        raise ValueError(f"{names}: changed while it was read; begin anew: `force=True`")
    warn_of_nothing(embedder, counts)
    return number, counts


def _digest(run: str, number: int, group: list[Entry]) -> str:
    """Compute the digest of a chunk's run, number and tokens."""
    tokens = [[entry.words, entry.segments, *_places(entry)] for entry in group]
    content = json.dumps([run, number, tokens])
    return hashlib.blake2b(content.encode("ascii"), digest_size=16).hexdigest()


def _places(entry: Entry) -> list[tuple[int, int, str]]:
    """Of what was chosen of it."""
    return [(kept.start, kept.end, kept.label) for kept in entry.kept or ()]


def _put_together(
    workplace: Workplace, n_chunks: int, settings: dict[str, Any], **how: bool
) -> None:
    whole = workplace.clear_whole()
    entries = workplace.read(n_chunks)
    with progress_bar(settings["entries"], "Writing", "entries", iterable=entries) as bar:
        OUTPUTS[settings["format"]].write(whole, bar, settings, **how)
