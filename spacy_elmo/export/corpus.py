"""Embedding of text of any size into a file or a folder of shards. Both can be resumed."""

import warnings
from dataclasses import replace
from pathlib import Path
from typing import Union

from ..files import followed, is_stream, user_path
from ..files.remote import is_url
from ..pipeline.load import is_pipeline
from ..text.reading import Inputs
from .embedder import CorpusEmbedder
from .entries import EntryCounts
from .folders import RemoteFolder, open_folder
from .inputs import DOCBIN, find_inputs, looks_like_running_text, looks_like_words
from .joining import write_file
from .outputs import check_format, check_wanted
from .settings import ExportSettings
from .sharding import Job, write_shards


def embed_corpus(
    embedder: CorpusEmbedder,
    inputs: Inputs,
    output: Union[str, Path],
    settings: ExportSettings = ExportSettings(),
) -> EntryCounts:
    """Write the vectors of text to a file, or to a folder of shards.

    If a call is interrupted, repeat it: it resumes.

    embedder (CorpusEmbedder): The model, and the settings of the vectors.
    inputs (Union[str, Path, Iterable[Union[str, Path]]]): Files, folders, globs, and URLs that
        `fsspec` can read.
    output (Union[str, Path]): The file or folder. Shards may be written to a URL.
    settings (ExportSettings): How to read, work and write.
    RETURNS (EntryCounts): Counts of the file. For shards, counts of the shards that this call
        made.
    RAISES (ValueError): A setting is invalid, the model or input cannot be read, the output
        exists, the unfinished output has other settings, or a shard is damaged.
    RAISES (ImportError): Ray is not installed.
    RAISES (OSError): The disk is full, another process writes the same file, or a worker was
        killed.
    """
    output = output if is_url(output) else user_path(output)
    if settings.workers == "ray":  # Ray processes have other working directories.
        output = output if is_url(output) else Path(output).absolute()
        model = user_path(embedder.model)
        if model.exists():
            embedder = replace(embedder, model=str(model.absolute()))
    format = check_format(Path(output), settings)
    _check_output(output, format, settings)
    check_wanted(embedder, format, settings.texts)
    output = output if is_url(output) else followed(Path(output))
    if not is_url(output):
        _check_model(embedder.model, Path(output))
    sources = find_inputs(inputs, output, settings.column, settings.input_format)
    if not any(source.kind == DOCBIN for source in sources):
        embedder.reader().check_labels()  # Docs in .spacy files may have other labels.
    if settings.workers == "ray":
        sources = [source.absolute() for source in sources]
    running_text = looks_like_running_text(sources) if settings.format == "sentences" else None
    if running_text is not None:
        warnings.warn(
            f"{running_text} looks like running text, but its tokens are cut at spaces. Set "
            f"`format=text` if a line is not one sentence with spaces between its tokens.",
            stacklevel=2,
        )
    words = looks_like_words(sources)
    if words is not None:
        warnings.warn(
            f"{words} has empty lines, like a file with one word per line, but each line becomes a "
            f"text. If a line is a word, the name of the file must end in .conll.",
            stacklevel=2,
        )
    job = Job(embedder, format, settings)
    if settings.shards is None:
        counts, is_all = write_file(job, sources, Path(output)), True
    else:
        counts, is_all = write_shards(job, sources, open_folder(output), settings.shards)
    if is_all and counts.entries and not counts.vectors and embedder.only is not None:
        warnings.warn(f"`only={embedder.only}`: no row has a token", stacklevel=2)
    return counts


def _check_output(output: Union[str, Path], format: str, settings: ExportSettings) -> None:
    """Check that the output can be a file, or a folder of shards.

    RAISES (ValueError): It cannot.
    """
    if not is_url(output) and not Path(output).name:
        raise ValueError(
            f"the output '{output}' has no name. Give the name of a new file or folder, such as "
            f"vectors.hdf5."
        )
    if settings.shards is not None:
        if format == "spacy" and isinstance(open_folder(output), RemoteFolder):
            raise ValueError(
                f"{output}: Docs can only be written to this machine. Set another `output_format`."
            )
    elif is_url(output):
        raise ValueError(f"{output}: a single file cannot be written to a URL. Set `shards`.")
    elif is_stream(Path(output)):
        raise ValueError(f"{output} is not a regular file. Give the name of a file on a disk.")


def _check_model(model: str, output: Path) -> None:
    """Check that the output is not a file of the model.

    RAISES (ValueError): It is one, or it is in the folder of a pipeline.
    """
    path = user_path(model)
    if is_pipeline(model):
        is_part = path.is_dir() and output.resolve().is_relative_to(path.resolve())
    else:
        from ..weights.formats import local_files

        is_part = output.exists() and any(map(output.samefile, local_files(path)))
    if is_part:
        raise ValueError(f"{output} belongs to the model {model}. Choose another output.")
