"""Output formats, and checks of output names and settings."""

from pathlib import Path
from types import ModuleType

from . import hdf5_output, npz_output, parquet, spacy_output
from .embedder import CorpusEmbedder
from .parquet import check_pyarrow
from .settings import ExportSettings

OUTPUTS: dict[str, ModuleType] = {
    "hdf5": hdf5_output,
    "npz": npz_output,
    "parquet": parquet,
    "spacy": spacy_output,
}


def check_format(output: Path, settings: ExportSettings) -> str:
    """Return the name of the output format, after a check that it can be written.

    output (Path): The output.
    settings (ExportSettings): The settings of the run.
    RETURNS (str): One of `OUTPUTS`. Default: the format with the suffix of `output`, or "parquet"
        for shards without a suffix.
    RAISES (ValueError): The format or the suffix is unknown.
    RAISES (ImportError): The format needs a library that is not installed.
    """
    by_suffix = {suffix: name for name, kind in OUTPUTS.items() for suffix in kind.SUFFIXES}
    format = settings.output_format
    if format is None:
        unnamed, other = (".parquet", "parquet") if settings.shards is not None else ("", None)
        format = by_suffix.get(output.suffix.lower() or unnamed, other)
        if format is None:
            raise ValueError(
                f"{output}: no format has the suffix '{output.suffix}'. Use "
                f"{', '.join(suffix for suffix in by_suffix if suffix)}, or set `output_format`."
            )
    if format not in OUTPUTS:
        raise ValueError(f"`output_format` must be one of {', '.join(OUTPUTS)}, got '{format}'")
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
    foreign = spacy_output.find_foreign(output) if output.is_dir() else None
    if foreign is not None:
        raise ValueError(
            f"{output} contains files that are not Docs with vectors, such as {foreign}. Give "
            f"another name."
        )
    if not force:
        raise ValueError(f"{output} exists already. Give another name, or `force=True`.")


def check_wanted(embedder: CorpusEmbedder, format: str, texts: str) -> None:
    """Check that settings fit the output format.

    embedder (CorpusEmbedder): The settings of the vectors.
    format (str): One of `OUTPUTS`.
    texts (str): How to write the texts, one of `TEXTS`.
    RAISES (ValueError): The format cannot store what the settings ask for.
    """
    if texts == "keys" and format != "hdf5":
        raise ValueError(f"`texts=keys` is for HDF5, not for {format}. Omit it.")
    is_reduced = embedder.dtype == "int8" or embedder.pool or embedder.only
    if is_reduced and (format not in ("hdf5", "parquet") or texts == "keys"):
        raise ValueError(
            "`pool`, `only` and `dtype=int8` need Parquet, or HDF5 without `texts=keys`. Set "
            "`output_format`."
        )
    if embedder.sentence_marks and format == "spacy":
        raise ValueError(
            "`sentence_marks`: a Doc has no tokens for marks. Set another `output_format`."
        )
