"""Output formats, and checks of output names and settings."""

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


def check_format(output: Path, format: Optional[str], *, is_sharded: bool) -> str:
    """Return the name of the output format, after a check that it can be written.

    output (Path): The output.
    format (Optional[str]): The format, if the user set one.
    is_sharded (bool): Whether the output is a folder of shards.
    RETURNS (str): One of `OUTPUTS`. Default: the format with the suffix of `output`, or "parquet"
        for shards without a suffix.
    RAISES (ValueError): The format or the suffix is unknown.
    RAISES (ImportError): The format needs a library that is not installed.
    """
    by_suffix = {suffix: name for name, kind in OUTPUTS.items() for suffix in kind.SUFFIXES}
    if format is None:
        unnamed, other = (".parquet", "parquet") if is_sharded else ("", None)
        format = by_suffix.get(output.suffix.lower() or unnamed, other)
        if format is None:
            raise ValueError(
                f"{output}: no format has the suffix '{output.suffix}'. Use "
                f"{', '.join(suffix for suffix in by_suffix if suffix)}, or set `format`."
            )
    if format not in OUTPUTS:
        raise ValueError(f"the format must be one of {', '.join(OUTPUTS)}, got '{format}'")
    if format == "parquet":
        check_pyarrow()
    return format


def check_room(output: Path, format: str, force: bool) -> None:
    """Check that an output does not overwrite another file by mistake.

    output (Path): The output.
    format (str): Format of the output.
    force (bool): Whether an existing output of this command may be replaced.
    RAISES (ValueError): A file or folder has this name, and may not be replaced.
    """
    if not output.exists():
        return
    if output.is_dir() != OUTPUTS[format].IS_FOLDER:
        what = "folder" if output.is_dir() else "file"
        raise ValueError(f"{output} is a {what}. Give another name.")
    if output.is_dir() and spacy_output.is_foreign(output):
        raise ValueError(
            f"{output} contains files that are not Docs with vectors. Give another name."
        )
    if not force:
        raise ValueError(f"{output} exists already. Give another name, or `force=True`.")


def check_wanted(
    embedder: CorpusEmbedder, format: str, *, max_tokens: int, sentence_keys: bool
) -> None:
    """Check that the settings fit each other and the output format.

    RAISES (ValueError): A setting is invalid, or two settings exclude each other.
    """
    if max_tokens < 1:
        raise ValueError(f"max_tokens must be 1 or more, got {max_tokens}")
    if sentence_keys and format != "hdf5":
        raise ValueError(f"`sentence_keys` is for HDF5, not for {format}. Omit it.")
    is_reduced = embedder.dtype == "int8" or embedder.pool or embedder.only
    if is_reduced and (format not in ("hdf5", "parquet") or sentence_keys):
        raise ValueError(
            "`pool`, `only` and `dtype=int8` need Parquet, or HDF5 without "
            "`sentence_keys`. Set `format`."
        )
    if embedder.sentence_marks and format == "spacy":
        raise ValueError("`sentence_marks`: a Doc has no tokens for marks. Set another `format`.")
