"""Formats of the output."""

from pathlib import Path
from types import ModuleType
from typing import Optional

from . import hdf5_output, npz_output, parquet, spacy_output
from .embedder import CorpusEmbedder
from .parquet import check_pyarrow

OUTPUTS: dict[str, ModuleType] = {
    "hdf5": hdf5_output,
    "npz": npz_output,
    "parquet": parquet,
    "spacy": spacy_output,
}


def check_format(output: Path, format: Optional[str]) -> str:
    """Find the format to write.

    output (Path): The output.
    format (Optional[str]): The format, if it was given.
    RETURNS (str): One of `OUTPUTS`: by default what the output's name says.
    RAISES (ValueError): There is no such format, or a name does not say one.
    RAISES (ImportError): A library that it needs is not installed.
    """
    by_suffix = {suffix: name for name, kind in OUTPUTS.items() for suffix in kind.SUFFIXES}
    if format is None:
        format = by_suffix.get(output.suffix.lower())
        if format is None:
            raise ValueError(
                f"{output}: no format ends in '{output.suffix}', but "
                f"{', '.join(suffix for suffix in by_suffix if suffix)}; or set `format`"
            )
    if format not in OUTPUTS:
        raise ValueError(f"the format must be one of {', '.join(OUTPUTS)}, got '{format}'")
    if format == "parquet":
        check_pyarrow()
    return format


def check_room(output: Path, format: str, force: bool) -> None:
    """Check that an output overwrites nothing that it must not.

    output (Path): The output.
    format (str): Its format.
    force (bool): Whether it may replace an existing output of this command.
    RAISES (ValueError): It would overwrite something.
    """
    if not output.exists():
        return
    kind = OUTPUTS[format]
    if output.is_dir() != kind.IS_FOLDER:
        what = "folder" if output.is_dir() else "file"
        raise ValueError(f"{output} is a {what}: give another name")
    if output.is_dir() and spacy_output.is_foreign(output):
        raise ValueError(f"{output} holds something else than Docs with vectors: another name")
    if not force:
        raise ValueError(f"{output} exists already: give another name, or `force=True`")


def format_of(output: Path) -> str:
    """Return the format that a folder's name ends in, or "parquet"."""
    suffix = output.suffix.lower() or ".parquet"
    return next((name for name, kind in OUTPUTS.items() if suffix in kind.SUFFIXES), "parquet")


def check_wanted(
    embedder: CorpusEmbedder, format: str, *, max_tokens: int, sentence_keys: bool
) -> None:
    """Check settings that depend on one another.

    RAISES (ValueError): They are impossible, or do not go together.
    """
    if max_tokens < 1:
        raise ValueError(f"max_tokens must be 1 or more, got {max_tokens}")
    if sentence_keys and format != "hdf5":
        raise ValueError(f"`sentence_keys` is for HDF5, not for {format}")
    is_reduced = embedder.dtype == "int8" or embedder.pool or embedder.only
    if is_reduced and (format not in ("hdf5", "parquet") or sentence_keys):
        raise ValueError("`pool`, `only` and `dtype=int8` are for Parquet and numbered HDF5")
    if embedder.sentence_marks and format == "spacy":
        raise ValueError("`sentence_marks`: a Doc has no token for a mark; write another format")
